// The first attempt of a request, in the phases the host calls: the live headers and body become the provider's. Its retries
// are built without phases, in failover.go.
package provider

import (
	"fmt"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
	"github.com/higress-group/wasm-go/pkg/wrapper"
	"github.com/tidwall/gjson"
)

// handleRequestHeaders makes the headers of the first attempt.
func (c *ProviderConfig) handleRequestHeaders(provider Provider, ctx wrapper.HttpContext, apiName ApiName) error {
	if _, supported := c.capabilities[string(apiName)]; !supported {
		return ErrUnsupportedApiName
	}
	pairs, err := proxywasm.GetHttpRequestHeaders()
	if err != nil {
		return fmt.Errorf("cannot read the request headers: %w", err)
	}
	headers := headersFromPairs(pairs)
	if handler, ok := provider.(TransformRequestHeadersHandler); ok {
		handler.TransformRequestHeaders(ctx, apiName, headers)
	}
	headers.Set(":path", c.applyProviderBasePath(headers.Get(":path")))
	headers.Del("Content-Length")  // the body will change
	headers.Del("Accept-Encoding") // a compressed response could not be transformed
	return proxywasm.ReplaceHttpRequestHeaders(pairsFromHeaders(headers))
}

// handleRequestBody keeps the client's body for retries and makes the body of the first attempt.
func (c *ProviderConfig) handleRequestBody(provider Provider, ctx wrapper.HttpContext, apiName ApiName, body []byte) (types.Action, error) {
	ctx.SetContext(CtxRequestBody, append([]byte(nil), body...))
	ctx.SetContext(ctxStreaming, gjson.GetBytes(body, "stream").Bool())

	transformed, err := c.transformFirstBody(provider, ctx, apiName, body)
	if err != nil {
		return types.ActionContinue, err
	}
	return types.ActionContinue, proxywasm.ReplaceHttpRequestBody(transformed)
}

// transformFirstBody dispatches as transformRequestHeadersAndBody does for retries, on the live headers of the request.
func (c *ProviderConfig) transformFirstBody(provider Provider, ctx wrapper.HttpContext, apiName ApiName, body []byte) ([]byte, error) {
	if handler, ok := provider.(TransformRequestBodyHandler); ok {
		return handler.TransformRequestBody(ctx, apiName, body)
	}
	handler, ok := provider.(TransformRequestBodyHeadersHandler)
	if !ok {
		return c.defaultTransformRequestBody(ctx, apiName, body)
	}
	pairs, err := proxywasm.GetHttpRequestHeaders()
	if err != nil {
		return nil, fmt.Errorf("cannot read the request headers: %w", err)
	}
	headers := headersFromPairs(pairs)
	transformed, err := handler.TransformRequestBodyHeaders(ctx, apiName, body, headers)
	if err != nil {
		return nil, err
	}
	// The transform may have set the path, so the base path has to be put before it again.
	headers.Set(":path", c.applyProviderBasePath(headers.Get(":path")))
	return transformed, proxywasm.ReplaceHttpRequestHeaders(pairsFromHeaders(headers))
}

// TransformLiveResponseHeaders changes the headers of the response that is under way.
func TransformLiveResponseHeaders(provider Provider, ctx wrapper.HttpContext, apiName ApiName) error {
	handler, ok := provider.(TransformResponseHeadersHandler)
	if !ok {
		return nil
	}
	pairs, err := proxywasm.GetHttpResponseHeaders()
	if err != nil {
		return fmt.Errorf("cannot read the response headers: %w", err)
	}
	headers := headersFromPairs(pairs)
	handler.TransformResponseHeaders(ctx, apiName, headers)
	return proxywasm.ReplaceHttpResponseHeaders(pairsFromHeaders(headers))
}
