// The provider types, and what all of them do alike. Each has a file of its own for the rest.
package provider

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/higress-group/wasm-go/pkg/wrapper"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// dialect is what sets a provider type apart from others.
type dialect struct {
	domain string             // where its requests go, unless the user names another
	paths  map[ApiName]string // by each API that it has
	build  func(common) Provider
}

var dialects = map[string]dialect{
	"cohere": cohereDialect,
	"kling":  klingDialect,
	"openai": openaiDialect,
}

func noDialect(kind string) error {
	return fmt.Errorf("there is no provider of type %q", kind)
}

// CreateProvider makes the provider that a configuration describes.
func CreateProvider(config ProviderConfig) (Provider, error) {
	spoken, known := dialects[config.kind]
	if !known {
		return nil, noDialect(config.kind)
	}
	return spoken.build(common{&config, spoken.domain, spoken.paths}), nil
}

// common is a provider that changes what all of ours change. The others are built on it.
type common struct {
	config *ProviderConfig
	domain string
	paths  map[ApiName]string
}

func (p common) GetProviderType() string {
	return p.config.kind
}

// TransformRequestHeaders sets path, host and credential. The path is the API's own, so that a client may put anything
// before it; an API without one keeps the client's path.
func (p common) TransformRequestHeaders(ctx wrapper.HttpContext, apiName ApiName, headers http.Header) {
	if path, has := p.paths[apiName]; has {
		headers.Set(":path", path+queryOf(headers.Get(":path")))
	}
	headers.Set(":authority", cmp.Or(p.config.providerDomain, p.domain))
	headers.Set("Authorization", "Bearer "+p.config.GetApiTokenInUse(ctx))
}

// openaiDialect is the client's own: of the body only the model's name changes.
var openaiDialect = dialect{
	domain: "api.openai.com",
	paths: map[ApiName]string{
		ApiNameChatCompletion: "/v1/chat/completions",
		ApiNameEmbeddings:     "/v1/embeddings",
		ApiNameVideos:         "/v1/videos",
	},
	build: func(p common) Provider { return p },
}

// defaultTransformRequestBody is for APIs that the provider speaks as the client does: only the model's name is mapped.
func (c *ProviderConfig) defaultTransformRequestBody(_ wrapper.HttpContext, apiName ApiName, body []byte) ([]byte, error) {
	if err := requireJsonObject(apiName, body); err != nil {
		return nil, err
	}
	if model := gjson.GetBytes(body, "model"); model.Exists() {
		return sjson.SetBytes(body, "model", c.mapModel(model.String()))
	}
	return body, nil
}

func requireJsonObject(apiName ApiName, body []byte) error {
	if !gjson.ValidBytes(body) || !gjson.ParseBytes(body).IsObject() {
		return fmt.Errorf("the body for %s must be a JSON object", apiName)
	}
	return nil
}
