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
	wrapper.SetCtx("ai-proxy", wrapper.ParseConfig(configure),
		wrapper.ProcessRequestHeaders(onHttpRequestHeaders), wrapper.ProcessRequestBody(onHttpRequestBody),
		wrapper.ProcessResponseHeaders(answerHeaders), wrapper.ProcessResponseBody(answerBody))
}

func onHttpRequestHeaders(ctx wrapper.HttpContext, plugin plugin) types.Action {
	apiName := resolveApiName(ctx.Path())
	if apiName == "" {
		log.Debugf("not a request for a model, left alone: %s", ctx.Path())
		ctx.DontReadRequestBody()
		return types.HeaderContinue
	}
	ctx.DisableReroute() // the provider's host and path are no reason to choose another route
	ctx.SetContext(provider.CtxRequestPath, ctx.Path())
	ctx.SetContext(provider.CtxRequestHost, ctx.Host())
	ctx.SetContext(provider.CtxKeyApiName, apiName)
	plugin.settings.SetAvailableApiTokens(ctx)
	plugin.settings.SetApiTokenInUse(ctx)

	if err := plugin.settings.Address(ctx, plugin.active, apiName); err != nil {
		return refuse(ctx, statusOf(err), err)
	}
	if ctx.HasRequestBody() {
		return types.HeaderStopIteration // the body may still change the headers
	}
	return types.HeaderContinue
}

func onHttpRequestBody(ctx wrapper.HttpContext, plugin plugin, body []byte) types.Action {
	if err := plugin.settings.Fill(ctx, plugin.active, apiNameOf(ctx), body); err != nil {
		return refuse(ctx, http.StatusBadRequest, err)
	}
	return types.ActionContinue
}

func answerHeaders(ctx wrapper.HttpContext, plugin plugin) types.Action {
	status, _ := proxywasm.GetHttpResponseHeader(":status")
	ours := apiNameOf(ctx) != "" && !provider.WasRetried(ctx)
	good := ours && status == "200"
	if !good || !provider.TranslatesAnswer(plugin.active) || isStream() {
		ctx.DontReadResponseBody()
	} else if err := proxywasm.RemoveHttpResponseHeader("content-length"); err != nil {
		log.Errorf("the length of another body stays: %v", err)
	}

	token := plugin.settings.GetApiTokenInUse(ctx)
	switch {
	case good:
		plugin.settings.NoteSuccess(token)
	case ours:
		usable := plugin.settings.GetAvailableApiToken(ctx)
		return plugin.settings.OnRequestFailed(plugin.active, ctx, token, usable, status)
	}
	return types.HeaderContinue
}

// isStream says whether the response is a stream of events, which cannot wait until it is whole.
func isStream() bool {
	contentType, _ := proxywasm.GetHttpResponseHeader("content-type")
	return strings.HasPrefix(contentType, "text/event-stream")
}

func answerBody(ctx wrapper.HttpContext, plugin plugin, body []byte) types.Action {
	translated, err := provider.TranslateAnswer(ctx, plugin.active, apiNameOf(ctx), body)
	if err == nil {
		err = proxywasm.ReplaceHttpResponseBody(translated)
	}
	if err != nil {
		log.Warnf("response body left as it is: %v", err)
	}
	return types.ActionContinue
}

// resolveApiName returns "" for a path that is no model's.
func resolveApiName(path string) (apiName provider.ApiName) {
	path, _, _ = strings.Cut(path, "?")
	for suffix, found := range apiPaths {
		if strings.HasSuffix(path, suffix) {
			apiName = found
		}
	}
	return apiName
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
