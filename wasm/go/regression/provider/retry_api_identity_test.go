// Regression tests of Higress #4396: a retry is rebuilt as the API of its request, a generated health check as Chat
// Completions. What the shared helper passes on is recorded by doubles of providers, through the retry and the timer that
// use it, so nothing here knows the helper's parameters.
package provider

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/proxytest"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
	"github.com/higress-group/wasm-go/pkg/log"
	"github.com/higress-group/wasm-go/pkg/wrapper"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

const (
	identityPath = "/v1/anything?trace=1"
	identityBody = `{"model":"m","prompt":"p"}`
	identityForm = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--\r\n"

	identityJsonType, identityFormType = "application/json", "multipart/form-data; boundary=b"

	// identityUnknownApi is an API that no provider can have a rule for: only passing it on carries it through.
	identityUnknownApi ApiName = "regression/v1/unknown"
	// identityImageEditApi takes a form, so that a default transform of bodies may have to know it.
	identityImageEditApi ApiName = "openai/v1/imageedit"

	identityRetrying = `{"type":"openai","apiTokens":["key-a","key-b"],"retryOnFailure":{"enabled":true}}`
)

var identityApis = []ApiName{ApiNameVideos, ApiNameEmbeddings, identityUnknownApi, ApiNameChatCompletion}

// The doubles: each implements the body transforms of one branch of the dispatch, and records what it was given.

type identityCall struct {
	transform string
	api       ApiName
	body      string
}

type identityRecorder struct {
	config *ProviderConfig
	calls  []identityCall
}

func (r *identityRecorder) GetProviderType() string { return "regression-double" }

func (r *identityRecorder) record(transform string, api ApiName, body []byte) {
	r.calls = append(r.calls, identityCall{transform, api, string(body)})
}

// take returns what has been recorded since it was called last.
func (r *identityRecorder) take() []identityCall {
	calls := r.calls
	r.calls = nil
	return calls
}

func identityTransformed(transform string, api ApiName) string {
	return fmt.Sprintf(`{"by":%q,"api":%q}`, transform, api)
}

type identityHeaders struct{ *identityRecorder }

func (d identityHeaders) TransformRequestHeaders(ctx wrapper.HttpContext, api ApiName, headers http.Header) {
	d.record("headers", api, nil)
	headers.Set(":path", "/headers/"+string(api))
	headers.Set("Authorization", "Bearer "+d.config.GetApiTokenInUse(ctx))
}

type identityByBody struct{ identityHeaders }

func (d identityByBody) TransformRequestBody(_ wrapper.HttpContext, api ApiName, body []byte) ([]byte, error) {
	d.record("body", api, body)
	return []byte(identityTransformed("body", api)), nil
}

type identityByBodyHeaders struct{ identityHeaders }

func (d identityByBodyHeaders) TransformRequestBodyHeaders(_ wrapper.HttpContext, api ApiName, body []byte, headers http.Header) ([]byte, error) {
	d.record("body and headers", api, body)
	headers.Set(":path", "/body-and-headers/"+string(api))
	return []byte(identityTransformed("body and headers", api)), nil
}

// identityByBoth implements two transforms of the body, of which the dispatch takes the one that knows no headers.
type identityByBoth struct {
	identityHeaders
	identityByBody
	identityByBodyHeaders
}

type identityLog struct{}

func (identityLog) Trace(string)             {}
func (identityLog) Tracef(string, ...any)    {}
func (identityLog) Debug(string)             {}
func (identityLog) Debugf(string, ...any)    {}
func (identityLog) Info(string)              {}
func (identityLog) Infof(string, ...any)     {}
func (identityLog) Warn(string)              {}
func (identityLog) Warnf(string, ...any)     {}
func (identityLog) Error(string)             {}
func (identityLog) Errorf(string, ...any)    {}
func (identityLog) Critical(string)          {}
func (identityLog) Criticalf(string, ...any) {}
func (identityLog) ResetID(string)           {}

var _ log.Log = identityLog{}

// identityPlugin is what a plugin's main package does around a provider, and no more: a first attempt is only remembered,
// and a failed response is handed to the provider's configuration.
type identityPlugin struct {
	config *ProviderConfig
	active Provider
}

// identityHost is the SDK's host with such a plugin.
type identityHost struct {
	proxytest.HostEmulator
	t       *testing.T
	plugin  identityPlugin
	request func(ctx wrapper.HttpContext) // what a request with a body does
}

// newIdentityHost starts a plugin; active makes its provider, given the configuration.
func newIdentityHost(t *testing.T, providerJson string, active func(ProviderConfig) (Provider, error)) *identityHost {
	t.Helper()
	host := &identityHost{t: t, request: func(wrapper.HttpContext) {}}
	vm := wrapper.NewCommonVmCtxWithOptions[identityPlugin]("regression",
		wrapper.WithLogger[identityPlugin](identityLog{}),
		wrapper.ParseConfig(func(json gjson.Result, plugin *identityPlugin) (err error) {
			plugin.config = &ProviderConfig{}
			plugin.config.FromJson(json.Get("provider"))
			if err = plugin.config.Validate(); err != nil {
				return err
			}
			if plugin.active, err = active(*plugin.config); err != nil {
				return err
			}
			host.plugin = *plugin
			return plugin.config.SetApiTokensFailover(plugin.active)
		}),
		wrapper.ProcessRequestHeaders(func(ctx wrapper.HttpContext, plugin identityPlugin) types.Action {
			ctx.SetContext(CtxRequestHost, ctx.Host())
			ctx.SetContext(CtxRequestPath, ctx.Path())
			plugin.config.SetAvailableApiTokens(ctx)
			plugin.config.SetApiTokenInUse(ctx)
			return types.HeaderStopIteration
		}),
		wrapper.ProcessRequestBody(func(ctx wrapper.HttpContext, plugin identityPlugin, body []byte) types.Action {
			ctx.SetContext(CtxRequestBody, append([]byte(nil), body...))
			host.request(ctx)
			return types.ActionContinue
		}),
		wrapper.ProcessResponseHeaders(func(ctx wrapper.HttpContext, plugin identityPlugin) types.Action {
			return plugin.config.OnRequestFailed(plugin.active, ctx,
				plugin.config.GetApiTokenInUse(ctx), plugin.config.GetAvailableApiToken(ctx), "503")
		}),
	)
	emulator, reset := proxytest.NewHostEmulator(proxytest.NewEmulatorOption().
		WithVMContext(vm).
		WithPluginConfiguration([]byte(`{"provider":` + providerJson + `}`)))
	t.Cleanup(reset)
	host.HostEmulator = emulator
	host.RegisterForeignFunction("get_log_level", func([]byte) []byte { return []byte{5, 0, 0, 0} })
	require.NoError(t, host.SetProperty([]string{"cluster_name"}, []byte("the-route's-cluster")))
	require.Equal(t, types.OnPluginStartStatusOK, host.StartPlugin())
	return host
}

// identityDouble makes a double that records.
func identityDouble(recorder *identityRecorder, double Provider) func(ProviderConfig) (Provider, error) {
	return func(config ProviderConfig) (Provider, error) {
		recorder.config = &config
		return double, nil
	}
}

// open sends a client's request as far as its response is due; then is called where the plugin has read the body.
func (h *identityHost) open(path, contentType, body string, then func(ctx wrapper.HttpContext)) (contextID uint32) {
	h.t.Helper()
	called := false
	h.request = func(ctx wrapper.HttpContext) { called = true; then(ctx) }
	contextID = h.InitializeHttpContext()
	h.CallOnRequestHeaders(contextID, [][2]string{
		{":authority", "client.test"}, {":path", path}, {":method", "POST"}, {"content-type", contentType},
	}, false)
	h.CallOnRequestBody(contextID, []byte(body), true)
	require.True(h.t, called, "the plugin has read the request")
	return contextID
}

// fail lets a request of an API fail, and returns the key of its first attempt.
func (h *identityHost) fail(api ApiName, path, contentType, body string) (contextID uint32, firstKey string) {
	h.t.Helper()
	contextID = h.open(path, contentType, body, func(ctx wrapper.HttpContext) {
		ctx.SetContext(CtxKeyApiName, api)
		firstKey = h.plugin.config.GetApiTokenInUse(ctx)
	})
	h.CallOnResponseHeaders(contextID, [][2]string{{":status", "503"}, {"content-type", "application/json"}}, false)
	return contextID, firstKey
}

func (h *identityHost) onlyCallout(contextID uint32) (headers map[string]string, callout proxytest.HttpCalloutAttribute) {
	h.t.Helper()
	callouts := h.GetCalloutAttributesFromContext(contextID)
	require.Len(h.t, callouts, 1, "one callout is under way")
	return identityHeaderMap(callouts[0].Headers), callouts[0]
}

func identityHeaderMap(pairs [][2]string) map[string]string {
	headers := map[string]string{}
	for _, pair := range pairs {
		headers[strings.ToLower(pair[0])] = pair[1]
	}
	return headers
}

// Each branch of the dispatch is given the API of the failed request, and what it makes of the request is what is sent.
func TestRetryApiIdentityOfEachTransform(t *testing.T) {
	for _, double := range []struct {
		name      string
		make      func(*identityRecorder) Provider
		transform string // of the body; none for the default one
		path      string
	}{
		{"headers and default body", func(r *identityRecorder) Provider { return identityHeaders{r} }, "", "/headers/"},
		{"body", func(r *identityRecorder) Provider { return identityByBody{identityHeaders{r}} }, "body", "/headers/"},
		{"body and headers", func(r *identityRecorder) Provider { return identityByBodyHeaders{identityHeaders{r}} },
			"body and headers", "/body-and-headers/"},
		{"body before body and headers", func(r *identityRecorder) Provider {
			return identityByBoth{identityHeaders{r}, identityByBody{identityHeaders{r}}, identityByBodyHeaders{identityHeaders{r}}}
		}, "body", "/headers/"},
	} {
		for _, api := range identityApis {
			t.Run(double.name+"/"+string(api), func(t *testing.T) {
				recorder := &identityRecorder{}
				host := newIdentityHost(t, identityRetrying, identityDouble(recorder, double.make(recorder)))

				contextID, _ := host.fail(api, identityPath, identityJsonType, identityBody)

				want := []identityCall{{"headers", api, ""}}
				if double.transform != "" {
					want = append(want, identityCall{double.transform, api, identityBody})
				}
				require.Equal(t, want, recorder.take())
				headers, callout := host.onlyCallout(contextID)
				require.Equal(t, double.path+string(api), headers[":path"])
				if double.transform != "" {
					require.Equal(t, identityTransformed(double.transform, api), string(callout.Body))
				}
			})
		}
	}
}

// identityDefaultTransform is what the default transform of bodies makes of a request of an API, error included.
func (h *identityHost) identityDefaultTransform(api ApiName, contentType, body string) (transformed, failure string) {
	h.t.Helper()
	h.open(identityPath, contentType, body, func(ctx wrapper.HttpContext) {
		ctx.SetContext(CtxKeyApiName, api)
		made, err := h.plugin.config.defaultTransformRequestBody(ctx, api, []byte(body))
		if err != nil {
			failure = err.Error()
			return
		}
		transformed = string(made)
	})
	return transformed, failure
}

var identityDefaultRequests = []struct{ name, contentType, body string }{
	{"JSON", identityJsonType, identityBody},
	{"form", identityFormType, identityForm},
}

const identityMapped = `{"type":"openai","apiTokens":["key-a","key-b"],"modelMapping":{"m":"up-m"},"retryOnFailure":{"enabled":true}}`

// A provider without any transform has its body made by the default one, for the API of the failed request. A body that it
// refuses is not sent.
func TestRetryApiIdentityOfTheDefaultTransform(t *testing.T) {
	for _, request := range identityDefaultRequests {
		for _, api := range append([]ApiName{identityImageEditApi}, identityApis...) {
			t.Run(request.name+"/"+string(api), func(t *testing.T) {
				recorder := &identityRecorder{}
				host := newIdentityHost(t, identityMapped, identityDouble(recorder, recorder))
				want, failure := host.identityDefaultTransform(api, request.contentType, request.body)

				contextID, _ := host.fail(api, identityPath, request.contentType, request.body)

				if failure != "" {
					require.Empty(t, host.GetCalloutAttributesFromContext(contextID), failure)
					return
				}
				_, callout := host.onlyCallout(contextID)
				require.Equal(t, want, string(callout.Body))
			})
		}
	}
}

// Every attempt of a request is of its API, from the client's own body, with a key that no earlier attempt had.
func TestRetryApiIdentityOfEveryAttempt(t *testing.T) {
	const threeKeys = `{"type":"openai","apiTokens":["key-a","key-b","key-c"],"retryOnFailure":{"enabled":true,"maxRetries":2}}`
	for _, api := range identityApis {
		t.Run(string(api), func(t *testing.T) {
			recorder := &identityRecorder{}
			host := newIdentityHost(t, threeKeys, identityDouble(recorder, identityByBody{identityHeaders{recorder}}))
			contextID, key := host.fail(api, identityPath, identityJsonType, identityBody)
			keys := map[string]bool{"Bearer " + key: true}
			for attempt := 2; attempt <= 3; attempt++ {
				require.Equal(t, []identityCall{{"headers", api, ""}, {"body", api, identityBody}}, recorder.take())
				headers, callout := host.onlyCallout(contextID)
				require.Equal(t, "/headers/"+string(api), headers[":path"])
				require.Equal(t, identityTransformed("body", api), string(callout.Body))
				keys[headers["authorization"]] = true
				require.Len(t, keys, attempt, "each attempt has a key of its own")
				host.CallOnHttpCallResponse(callout.CalloutID, [][2]string{{":status", "503"}}, nil, []byte(`{}`))
			}
			require.Empty(t, host.GetCalloutAttributesFromContext(contextID))
			require.Empty(t, recorder.take(), "no attempt is made without a key")
		})
	}
}

// A health check is generated, and is Chat Completions whatever was asked for last.
func TestRetryApiIdentityOfTheHealthCheck(t *testing.T) {
	const probing = `{"type":"openai","apiTokens":["key-a","key-b"],"retryOnFailure":{"enabled":true},
		"failover":{"enabled":true,"failureThreshold":1,"healthCheckInterval":1,"healthCheckModel":"probe-model"}}`
	for _, double := range []struct {
		name      string
		make      func(*identityRecorder) Provider
		transform string
		path      string
	}{
		{"body", func(r *identityRecorder) Provider { return identityByBody{identityHeaders{r}} }, "body", "/headers/"},
		{"body and headers", func(r *identityRecorder) Provider { return identityByBodyHeaders{identityHeaders{r}} },
			"body and headers", "/body-and-headers/"},
	} {
		t.Run(double.name, func(t *testing.T) {
			recorder := &identityRecorder{}
			host := newIdentityHost(t, probing, identityDouble(recorder, double.make(recorder)))
			_, failedKey := host.fail(ApiNameVideos, identityPath, identityJsonType, identityBody)
			recorder.take()

			deadline := time.Now().Add(10 * time.Second)
			for len(host.GetCalloutAttributesFromContext(proxytest.PluginContextID)) == 0 {
				require.True(t, time.Now().Before(deadline), "the timer probes the key set aside")
				host.Tick()
				time.Sleep(5 * time.Millisecond)
			}

			calls := recorder.take()
			require.GreaterOrEqual(t, len(calls), 2)
			for _, call := range calls {
				require.Equal(t, ApiNameChatCompletion, call.api, call.transform)
			}
			require.Equal(t, double.transform, calls[1].transform)
			require.True(t, gjson.Get(calls[1].body, "messages").IsArray(), calls[1].body)
			require.Equal(t, "probe-model", gjson.Get(calls[1].body, "model").String())
			probe := host.GetCalloutAttributesFromContext(proxytest.PluginContextID)[0]
			headers := identityHeaderMap(probe.Headers)
			require.Equal(t, double.path+string(ApiNameChatCompletion), headers[":path"])
			require.Equal(t, "Bearer "+failedKey, headers["authorization"])
			require.Equal(t, identityTransformed(double.transform, ApiNameChatCompletion), string(probe.Body))
		})
	}
}

// Kling's transform of the body chooses the path, text or image, by the API; for another API it leaves path and body be.
func TestRetryApiIdentityOfKling(t *testing.T) {
	const kling = `{"type":"kling","apiTokens":["key-a","key-b"],"modelMapping":{"m":"kling-v1"},"retryOnFailure":{"enabled":true}}`
	for _, video := range []struct{ name, body, path, want string }{
		{"text", `{"model":"m","prompt":"p"}`, "/v1/videos/text2video?trace=1", `{"model_name":"kling-v1","prompt":"p"}`},
		{"image", `{"model":"m","prompt":"p","image":"https://image.test/1.png"}`, "/v1/videos/image2video?trace=1",
			`{"model_name":"kling-v1","prompt":"p","image":"https://image.test/1.png"}`},
	} {
		t.Run(video.name, func(t *testing.T) {
			host := newIdentityHost(t, kling, CreateProvider)
			contextID, firstKey := host.fail(ApiNameVideos, "/v1/videos?trace=1", identityJsonType, video.body)
			headers, callout := host.onlyCallout(contextID)
			require.Equal(t, video.path, headers[":path"])
			require.JSONEq(t, video.want, string(callout.Body))
			require.Equal(t, "POST", headers[":method"])
			require.Equal(t, identityOtherKey(firstKey), headers["authorization"])
		})
	}
}

// A provider's base path changes nothing about the API. Whether a retry keeps it is not the subject of the fix: it is
// printed for the patch's description, and either way the test passes.
func TestRetryApiIdentityOfKlingWithABasePath(t *testing.T) {
	const based = `{"type":"kling","apiTokens":["key-a","key-b"],"providerBasePath":"/base","retryOnFailure":{"enabled":true}}`
	for _, video := range []struct{ name, body, path string }{
		{"text", `{"model":"m","prompt":"p"}`, "/v1/videos/text2video?trace=1"},
		{"image", `{"model":"m","image":"https://image.test/1.png"}`, "/v1/videos/image2video?trace=1"},
	} {
		t.Run(video.name, func(t *testing.T) {
			host := newIdentityHost(t, based, CreateProvider)
			contextID, _ := host.fail(ApiNameVideos, "/v1/videos?trace=1", identityJsonType, video.body)
			headers, _ := host.onlyCallout(contextID)
			path, kept := strings.CutPrefix(headers[":path"], "/base")
			t.Logf("a retry with providerBasePath: kept=%t path=%s", kept, headers[":path"])
			require.Equal(t, video.path, path)
		})
	}
}

func identityOtherKey(key string) string {
	return "Bearer " + strings.NewReplacer("key-a", "key-b", "key-b", "key-a").Replace(key)
}
