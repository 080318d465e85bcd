// The first attempt of a request, in the phases the host calls: the live headers and body become the provider's. Its retries
// are built without phases, in failover.go.
package provider

import (
	"bytes"
	"net/http"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/wasm-go/pkg/wrapper"
	"github.com/tidwall/gjson"
)

// wantsStream is the key of whether a request asks for a stream of events.
const wantsStream = "wants a stream"

// Address makes the headers of the first attempt.
func (c *ProviderConfig) Address(ctx wrapper.HttpContext, active Provider, apiName ApiName) error {
	if _, has := dialects[c.kind].paths[apiName]; !has {
		return ErrUnsupportedApiName
	}
	return editRequestHeaders(func(headers http.Header) error {
		if provider, does := active.(withHeaders); does {
			provider.TransformRequestHeaders(ctx, apiName, headers)
		}
		c.rebase(headers)
		headers.Del("Content-Length")  // the body will change
		headers.Del("Accept-Encoding") // a compressed response could not be transformed
		return nil
	})
}

// Fill makes the body of the first attempt, and keeps the client's for retries.
func (c *ProviderConfig) Fill(ctx wrapper.HttpContext, active Provider, apiName ApiName, received []byte) error {
	ctx.SetContext(CtxRequestBody, bytes.Clone(received))
	ctx.SetContext(wantsStream, gjson.GetBytes(received, "stream").Bool())
	filled, err := c.fill(ctx, active, apiName, received)
	if err != nil {
		return err
	}
	return proxywasm.ReplaceHttpRequestBody(filled)
}

// fill dispatches as transformRequestHeadersAndBody does for retries, on the live headers of the request.
func (c *ProviderConfig) fill(ctx wrapper.HttpContext, active Provider, apiName ApiName, body []byte) (filled []byte, err error) {
	switch provider := active.(type) {
	case withBody:
		return provider.TransformRequestBody(ctx, apiName, body)
	case withBodyAndHeaders:
		err = editRequestHeaders(func(headers http.Header) (failed error) {
			filled, failed = provider.TransformRequestBodyHeaders(ctx, apiName, body, headers)
			c.rebase(headers) // again, since the transform may have set the path
			return failed
		})
		return filled, err
	}
	return c.defaultTransformRequestBody(ctx, apiName, body)
}

// TranslatesAnswer says whether a provider's answers have to become the client's.
func TranslatesAnswer(active Provider) bool {
	_, does := active.(withAnswer)
	return does
}

// TranslateAnswer makes the client's answer; that of a provider which does not translate is the client's already.
func TranslateAnswer(ctx wrapper.HttpContext, active Provider, apiName ApiName, answer []byte) ([]byte, error) {
	if provider, does := active.(withAnswer); does {
		return provider.translateAnswer(ctx, apiName, answer)
	}
	return answer, nil
}
