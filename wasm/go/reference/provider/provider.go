// Package provider turns requests of OpenAI's APIs into those of a model provider. This file has the names of the APIs, what
// a provider may implement, and a provider's configuration.
package provider

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/higress-group/wasm-go/pkg/wrapper"
	"github.com/tidwall/gjson"
)

// ApiName says which API a request speaks, whatever path or body the provider uses for it.
type ApiName string

const (
	ApiNameVideos         ApiName = "videos"
	ApiNameEmbeddings     ApiName = "embeddings"
	ApiNameChatCompletion ApiName = "chat_completions"
)

// CtxKeyApiName is the key of a request's API in its context. A request that has none is not for a model.
const CtxKeyApiName = "api"

// Keys of the client's request as it came, which retries start from.
const CtxRequestBody, CtxRequestPath, CtxRequestHost = "received body", "received path", "received host"

// Provider is a model provider's side of a request. Which of the transforms below it has decides how a request is made.
type Provider interface {
	// GetProviderType returns the name that a configuration calls it by.
	GetProviderType() string
}

type (
	// withHeaders comes first, before the body is known.
	withHeaders interface {
		TransformRequestHeaders(wrapper.HttpContext, ApiName, http.Header)
	}

	// withBody makes the body. A provider that has this one is not asked for the next.
	withBody interface {
		TransformRequestBody(wrapper.HttpContext, ApiName, []byte) ([]byte, error)
	}

	// withBodyAndHeaders is for a provider whose headers depend on the body.
	withBodyAndHeaders interface {
		TransformRequestBodyHeaders(wrapper.HttpContext, ApiName, []byte, http.Header) ([]byte, error)
	}

	// withAnswer makes the client's answer out of the provider's.
	withAnswer interface {
		translateAnswer(wrapper.HttpContext, ApiName, []byte) ([]byte, error)
	}
)

// ErrUnsupportedApiName is what a request gets whose API the provider lacks.
var ErrUnsupportedApiName = errors.New("the provider does not support this API")

// ProviderConfig is one provider as the user configures it.
type ProviderConfig struct {
	id, kind         string
	apiTokens        []string
	models           map[string]string // modelMapping
	providerDomain   string
	providerBasePath string // without a slash at its end
	retries          retries
	failover         failover
}

// FromJson reads a configuration; Validate finds what is wrong with it.
func (c *ProviderConfig) FromJson(json gjson.Result) {
	*c = ProviderConfig{id: "default", models: map[string]string{}, retries: defaultRetries(), failover: defaultFailover()}
	json.ForEach(func(key, value gjson.Result) bool {
		switch key.String() {
		case "id":
			c.id = cmp.Or(value.String(), c.id)
		case "type":
			c.kind = value.String()
		case "apiTokens":
			c.apiTokens = texts(value)
		case "modelMapping":
			for model, mapped := range value.Map() {
				c.models[model] = mapped.String()
			}
		case "providerDomain":
			c.providerDomain = value.String()
		case "providerBasePath":
			c.providerBasePath = strings.TrimSuffix(value.String(), "/")
		case "retryOnFailure":
			c.retries.read(value)
		case "failover":
			c.failover.read(value)
		}
		return true
	})
}

// Validate says in one line what the user has to put right.
func (c *ProviderConfig) Validate() error {
	problem := c.retries.problem()
	if problem == nil {
		problem = c.failover.problem()
	}
	switch _, known := dialects[c.kind]; {
	case c.kind == "":
		problem = errors.New("it needs a type")
	case !known:
		problem = noDialect(c.kind)
	case len(c.apiTokens) == 0:
		problem = errors.New("apiTokens needs at least one token")
	case slices.Contains(c.apiTokens, ""):
		problem = errors.New("an empty token in apiTokens")
	case c.providerBasePath != "" && c.providerBasePath[0] != '/':
		problem = fmt.Errorf("providerBasePath must start with a slash: %q", c.providerBasePath)
	}
	if problem != nil {
		return fmt.Errorf("provider %s: %w", c.id, problem)
	}
	return nil
}

// mapModel applies the exact entry, else the one with the longest matching prefix ("*" has the shortest), else nothing.
func (c *ProviderConfig) mapModel(model string) string {
	best, longest := c.models[model], -1
	if best == "" {
		for pattern, mapped := range c.models {
			prefix, isPrefix := strings.CutSuffix(pattern, "*")
			if isPrefix && strings.HasPrefix(model, prefix) && len(prefix) > longest {
				best, longest = mapped, len(prefix)
			}
		}
	}
	return cmp.Or(best, model)
}

// rebase puts the configured base before the path in some headers, unless it is there already.
func (c *ProviderConfig) rebase(headers http.Header) {
	if path := headers.Get(":path"); c.providerBasePath != "" && !strings.HasPrefix(path, c.providerBasePath+"/") {
		headers.Set(":path", c.providerBasePath+path)
	}
}

func texts(list gjson.Result) (all []string) {
	for _, item := range list.Array() {
		all = append(all, item.String())
	}
	return all
}

// number returns 0, which nothing here may be, for what is not a number.
func number(value gjson.Result) int64 {
	if value.Type != gjson.Number {
		return 0
	}
	return value.Int()
}
