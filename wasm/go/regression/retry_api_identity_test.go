// Regression tests of Higress #4396 on whole requests: what goes out as a retry is caught by the SDK's host, once from native
// Go and once from the compiled module. The health check is tested in package provider: the SDK's host cannot answer what a
// provider may ask of it on a timer.
package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
	"github.com/higress-group/wasm-go/pkg/test"
	"github.com/stretchr/testify/require"
)

// Two kinds of Go test, so that either can be asked for alone. A module that WASM_FILE_PATH names must be there: the SDK
// would skip its tests without a word. Where none is named, the SDK compiles one.
func TestRetryApiIdentity(t *testing.T) {
	t.Run("native", func(t *testing.T) { test.RunGoTest(t, retryApiIdentity) })
	t.Run("module", func(t *testing.T) {
		if named := os.Getenv("WASM_FILE_PATH"); named != "" {
			require.FileExists(t, named, "the module that WASM_FILE_PATH names")
		}
		ran := false
		test.RunWasmTest(t, func(t *testing.T) {
			ran = true
			retryApiIdentity(t)
		})
		require.True(t, ran, "the module was tested")
	})
}

// All in one, since the host compiles the module anew for each RunWasmTest.
func retryApiIdentity(t *testing.T) {
	t.Run("Kling text video", func(t *testing.T) {
		identityRetries(t, "kling", "/v1/videos?trace=1", `{"model":"m","prompt":"p"}`,
			"/v1/videos/text2video?trace=1", `{"model_name":"up-m","prompt":"p"}`)
	})
	t.Run("Kling image video", func(t *testing.T) {
		identityRetries(t, "kling", "/v1/videos?trace=1", `{"model":"m","prompt":"p","image":"https://image.test/1.png"}`,
			"/v1/videos/image2video?trace=1", `{"model_name":"up-m","prompt":"p","image":"https://image.test/1.png"}`)
	})
	t.Run("OpenAI video", func(t *testing.T) {
		identityRetries(t, "openai", "/v1/videos", `{"model":"m","prompt":"p"}`, "/v1/videos", `{"model":"up-m","prompt":"p"}`)
	})
	t.Run("OpenAI embeddings", func(t *testing.T) {
		identityRetries(t, "openai", "/v1/embeddings", `{"model":"m","input":"i"}`, "/v1/embeddings", `{"model":"up-m","input":"i"}`)
	})
	t.Run("OpenAI Chat Completions", func(t *testing.T) {
		identityRetries(t, "openai", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"c"}]}`,
			"/v1/chat/completions", `{"model":"up-m","messages":[{"role":"user","content":"c"}]}`)
	})
}

func identityStart(t *testing.T, providerJson string) test.TestHost {
	t.Helper()
	host, status := test.NewTestHost(json.RawMessage(`{"provider":` + providerJson + `}`))
	t.Cleanup(host.Reset)
	require.Equal(t, types.OnPluginStartStatusOK, status)
	// What a gateway says of a response that did not come from itself.
	require.NoError(t, host.SetProperty([]string{"response", "code_details"}, []byte("via_upstream")))
	return host
}

// identityFailed sends a client's request, answers its first attempt with 503, and returns what that attempt was.
func identityFailed(t *testing.T, host test.TestHost, path, body string) (headers map[string]string, sent string) {
	t.Helper()
	host.InitHttp()
	host.CallOnHttpRequestHeaders([][2]string{
		{":authority", "client.test"}, {":path", path}, {":method", "POST"}, {"content-type", "application/json"},
	})
	require.Equal(t, types.ActionContinue, host.CallOnHttpRequestBody([]byte(body)))
	headers, sent = identityHeaderMap(host.GetRequestHeaders()), string(host.GetRequestBody())
	host.CallOnHttpResponseHeaders([][2]string{{":status", "503"}, {"content-type", "application/json"}})
	return headers, sent
}

func identityHeaderMap(pairs [][2]string) map[string]string {
	headers := map[string]string{}
	for _, pair := range pairs {
		headers[strings.ToLower(pair[0])] = pair[1]
	}
	return headers
}

// identityRetries lets a request fail twice: every attempt has the same path and body, and a key of its own.
func identityRetries(t *testing.T, providerType, path, body, wantPath, wantBody string) {
	t.Helper()
	keys := map[string]bool{"Bearer key-a": true, "Bearer key-b": true, "Bearer key-c": true}
	use := func(headers map[string]string) {
		require.True(t, keys[headers["authorization"]], "a configured key, not used before: %q", headers["authorization"])
		delete(keys, headers["authorization"])
	}
	host := identityStart(t, `{"type":"`+providerType+`","apiTokens":["key-a","key-b","key-c"],"modelMapping":{"m":"up-m"},
		"retryOnFailure":{"enabled":true,"maxRetries":2}}`)

	first, sent := identityFailed(t, host, path, body)

	require.Equal(t, wantPath, first[":path"], "first attempt")
	require.JSONEq(t, wantBody, sent, "first attempt")
	use(first)
	for _, attempt := range []string{"second attempt", "third attempt"} {
		callouts := host.GetHttpCalloutAttributes()
		require.Len(t, callouts, 1, attempt)
		headers := identityHeaderMap(callouts[0].Headers)
		require.Equal(t, wantPath, headers[":path"], attempt)
		require.JSONEq(t, wantBody, string(callouts[0].Body), attempt)
		require.Equal(t, "POST", headers[":method"], attempt)
		require.Equal(t, first[":authority"], headers[":authority"], attempt)
		use(headers)
		host.CallOnHttpCall([][2]string{{":status", "503"}, {"content-type", "application/json"}}, []byte(`{}`))
	}
	require.Empty(t, host.GetHttpCalloutAttributes(), "no attempt without a key")
}
