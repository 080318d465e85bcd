// The plugin's configuration: one provider, or several of which one is active.
package main

import (
	"errors"
	"fmt"

	"github.com/tidwall/gjson"

	"reference.example/ai-proxy/provider"
)

type PluginConfig struct {
	activeProviderConfig *provider.ProviderConfig
	activeProvider       provider.Provider
}

func parseConfig(json gjson.Result, config *PluginConfig) error {
	providerJson, err := findActiveProvider(json)
	if err != nil {
		return err
	}
	active := &provider.ProviderConfig{}
	active.FromJson(providerJson)
	if err := active.Validate(); err != nil {
		return err
	}
	config.activeProviderConfig = active
	if config.activeProvider, err = provider.CreateProvider(*active); err != nil {
		return err
	}
	return active.SetApiTokensFailover(config.activeProvider)
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
