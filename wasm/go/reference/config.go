// The plugin's configuration: one provider, or several of which one is active.
package main

import (
	"errors"
	"fmt"

	"github.com/tidwall/gjson"

	"reference.example/ai-proxy/provider"
)

// plugin is what a configuration makes: a provider, and the settings it was made from.
type plugin struct {
	settings *provider.ProviderConfig
	active   provider.Provider
}

func configure(json gjson.Result, made *plugin) error {
	chosen, err := findActiveProvider(json)
	if err != nil {
		return err
	}
	settings := new(provider.ProviderConfig)
	settings.FromJson(chosen)
	if err = settings.Validate(); err != nil {
		return err
	}
	active, err := provider.CreateProvider(*settings)
	if err != nil {
		return err
	}
	*made = plugin{settings, active}
	return settings.SetApiTokensFailover(active)
}

func findActiveProvider(json gjson.Result) (gjson.Result, error) {
	if single := json.Get("provider"); single.IsObject() {
		return single, nil
	}
	providers := json.Get("providers")
	if !providers.IsArray() {
		return gjson.Result{}, errors.New("the configuration needs a provider, or providers with an activeProviderId")
	}
	id := json.Get("activeProviderId").String()
	if id == "" {
		return gjson.Result{}, errors.New("providers needs an activeProviderId")
	}
	for _, candidate := range providers.Array() {
		if candidate.Get("id").String() == id {
			return candidate, nil
		}
	}
	return gjson.Result{}, fmt.Errorf("no provider has the id of activeProviderId: %q", id)
}
