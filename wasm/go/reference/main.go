// A small ai-proxy: it takes OpenAI's requests and sends them to the configured provider, in that provider's words and with
// one of its tokens. This file is the way of a request through the phases; the providers are in package provider.
package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
	"github.com/higress-group/wasm-go/pkg/log"
	"github.com/higress-group/wasm-go/pkg/wrapper"

	"reference.example/ai-proxy/provider"
)

// apiPaths are matched as suffixes, so that a route may put its own prefix before them.
var apiPaths = map[string]provider.ApiName{
	"/v1/chat/completions": provider.ApiNameChatCompletion,
	"/v1/embeddings":       provider.ApiNameEmbeddings,
	"/v1/videos":           provider.ApiNameVideos,
}

func main() {}

// In init, since a module built with -buildmode=c-shared never runs main.
func init() {
	wrapper.SetCtx(
		"ai-proxy",
		wrapper.ParseConfig(parseConfig),
		wrapper.ProcessRequestHeaders(onHttpRequestHeaders),
		wrapper.ProcessRequestBody(onHttpRequestBody),
		wrapper.ProcessResponseHeaders(onHttpResponseHeaders),
		wrapper.ProcessResponseBody(onHttpResponseBody),
	)
}

func onHttpRequestHeaders(ctx wrapper.HttpContext, config PluginConfig) types.Action {
	apiName := resolveApiName(ctx.Path())
	if apiName == "" {
		log.Debugf("not a request for a model, left alone: %s", ctx.Path())
		ctx.DontReadRequestBody()
		return types.HeaderContinue
	}
	ctx.SetContext(provider.CtxKeyApiName, apiName)
	ctx.SetContext(provider.CtxRequestHost, ctx.Host())
	ctx.SetContext(provider.CtxRequestPath, ctx.Path())
	config.activeProviderConfig.SetAvailableApiTokens(ctx)
	config.activeProviderConfig.SetApiTokenInUse(ctx)
	ctx.DisableReroute() // the provider's host and path are no reason to choose another route

	if handler, ok := config.activeProvider.(provider.RequestHeadersHandler); ok {
		if err := handler.OnRequestHeaders(ctx, apiName); err != nil {
			return refuse(ctx, statusOf(err), err)
		}
	}
	if !ctx.HasRequestBody() {
		return types.HeaderContinue
	}
	return types.HeaderStopIteration // the body may still change the headers
}

func onHttpRequestBody(ctx wrapper.HttpContext, config PluginConfig, body []byte) types.Action {
	handler, ok := config.activeProvider.(provider.RequestBodyHandler)
	if !ok {
		return types.ActionContinue
	}
	action, err := handler.OnRequestBody(ctx, apiNameOf(ctx), body)
	if err != nil {
		return refuse(ctx, http.StatusBadRequest, err)
	}
	return action
}

func onHttpResponseHeaders(ctx wrapper.HttpContext, config PluginConfig) types.Action {
	apiName, active := apiNameOf(ctx), config.activeProviderConfig
	if apiName == "" || provider.RetryStarted(ctx) {
		ctx.DontReadResponseBody()
		return types.HeaderContinue
	}
	token := active.GetApiTokenInUse(ctx)
	status, _ := proxywasm.GetHttpResponseHeader(":status")
	if status != "200" {
		ctx.DontReadResponseBody()
		return active.OnRequestFailed(config.activeProvider, ctx, token, active.GetAvailableApiToken(ctx), status)
	}
	active.OnRequestSucceeded(token)

	if !wantsResponseBody(config.activeProvider) {
		ctx.DontReadResponseBody()
	}
	if err := provider.TransformLiveResponseHeaders(config.activeProvider, ctx, apiName); err != nil {
		log.Errorf("response headers left as they are: %v", err)
	}
	return types.HeaderContinue
}

// wantsResponseBody is not said of a stream of events, which cannot wait until it is whole.
func wantsResponseBody(active provider.Provider) bool {
	_, transforms := active.(provider.TransformResponseBodyHandler)
	contentType, _ := proxywasm.GetHttpResponseHeader("content-type")
	return transforms && !strings.HasPrefix(contentType, "text/event-stream")
}

func onHttpResponseBody(ctx wrapper.HttpContext, config PluginConfig, body []byte) types.Action {
	handler, ok := config.activeProvider.(provider.TransformResponseBodyHandler)
	if !ok {
		return types.ActionContinue
	}
	transformed, err := handler.TransformResponseBody(ctx, apiNameOf(ctx), body)
	if err == nil {
		err = proxywasm.ReplaceHttpResponseBody(transformed)
	}
	if err != nil {
		log.Warnf("response body left as it is: %v", err)
	}
	return types.ActionContinue
}

// resolveApiName returns "" for a path that is no model's.
func resolveApiName(path string) provider.ApiName {
	path, _, _ = strings.Cut(path, "?")
	for suffix, apiName := range apiPaths {
		if strings.HasSuffix(path, suffix) {
			return apiName
		}
	}
	return ""
}

func apiNameOf(ctx wrapper.HttpContext) provider.ApiName {
	apiName, _ := ctx.GetContext(provider.CtxKeyApiName).(provider.ApiName)
	return apiName
}

func statusOf(err error) uint32 {
	if errors.Is(err, provider.ErrUnsupportedApiName) {
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}

// refuse answers in the upstream's place. Our own answer must not be taken for a failure of the provider and retried, so
// from here on the request counts as none of ours.
func refuse(ctx wrapper.HttpContext, status uint32, reason error) types.Action {
	log.Warnf("request refused with %d: %v", status, reason)
	ctx.SetContext(provider.CtxKeyApiName, nil)
	ctx.DontReadRequestBody()
	body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": reason.Error()}})
	headers := [][2]string{{"content-type", "application/json"}}
	if err := proxywasm.SendHttpResponse(status, headers, body, -1); err != nil {
		log.Errorf("cannot send the answer: %v", err)
	}
	return types.ActionPause
}
