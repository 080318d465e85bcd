// OpenAI speaks what the client speaks: host, path and credential change, and in the body only the model's name.
package provider

import (
	"net/http"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
	"github.com/higress-group/wasm-go/pkg/wrapper"
)

const (
	providerTypeOpenAI = "openai"

	openaiDomain = "api.openai.com"
)

var openaiCapabilities = map[ApiName]string{
	ApiNameChatCompletion: "/v1/chat/completions",
	ApiNameEmbeddings:     "/v1/embeddings",
	ApiNameVideos:         "/v1/videos",
}

type openaiProvider struct {
	config ProviderConfig
}

func (p *openaiProvider) GetProviderType() string {
	return providerTypeOpenAI
}

func (p *openaiProvider) OnRequestHeaders(ctx wrapper.HttpContext, apiName ApiName) error {
	return p.config.handleRequestHeaders(p, ctx, apiName)
}

func (p *openaiProvider) OnRequestBody(ctx wrapper.HttpContext, apiName ApiName, body []byte) (types.Action, error) {
	return p.config.handleRequestBody(p, ctx, apiName, body)
}

// TransformRequestHeaders sets the API's own path, so that a client may put anything before it.
func (p *openaiProvider) TransformRequestHeaders(ctx wrapper.HttpContext, apiName ApiName, headers http.Header) {
	p.config.setCommonHeaders(ctx, apiName, headers, openaiDomain)
}
