// Regression tests of Higress #4396 that call the shared helper itself, with the API name as its argument: they compile only
// with the fix, and are kept apart from those that need no more than its behaviour.
package provider

import (
	"net/http"
	"strings"
	"testing"

	"github.com/higress-group/wasm-go/pkg/wrapper"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// rebuilt is what the helper makes of a request; its context knows no API, so that only the argument can tell.
type rebuilt struct{ path, body, failure string }

func (h *identityHost) rebuild(api ApiName, path, contentType, body string) (made rebuilt) {
	h.t.Helper()
	h.open(path, contentType, body, func(ctx wrapper.HttpContext) {
		pairs := [][2]string{{"content-type", contentType}, {":authority", "client.test"}, {":path", path}}
		headers, transformed, err := h.plugin.config.transformRequestHeadersAndBody(ctx, h.plugin.active, api, pairs, []byte(body))
		if err != nil {
			made.failure = err.Error()
			return
		}
		made.path, made.body = headers.Get(":path"), string(transformed)
	})
	return made
}

func TestRetryApiIdentityOfTheHelper(t *testing.T) {
	const (
		keys   = `"apiTokens":["key-a","key-b"],"modelMapping":{"m":"up-m"}}`
		kling  = `{"type":"kling",` + keys
		openai = `{"type":"openai",` + keys
		chat   = `{"model":"m","messages":[{"role":"user","content":"c"}]}`
	)
	for _, c := range []struct {
		name, provider string
		api            ApiName
		body           string
		path, want     string
	}{
		{"Kling text video", kling, ApiNameVideos, `{"model":"m","prompt":"p"}`,
			"/v1/videos/text2video?trace=1", `{"model_name":"up-m","prompt":"p"}`},
		{"Kling image video", kling, ApiNameVideos, `{"model":"m","image":"https://image.test/1.png"}`,
			"/v1/videos/image2video?trace=1", `{"model_name":"up-m","image":"https://image.test/1.png"}`},
		{"OpenAI video", openai, ApiNameVideos, `{"model":"m","prompt":"p"}`, "/v1/videos?trace=1", `{"model":"up-m","prompt":"p"}`},
		{"OpenAI embeddings", openai, ApiNameEmbeddings, `{"model":"m","input":"i"}`, "/v1/embeddings?trace=1", `{"model":"up-m","input":"i"}`},
		{"OpenAI Chat Completions", openai, ApiNameChatCompletion, chat,
			"/v1/chat/completions?trace=1", strings.Replace(chat, `"m"`, `"up-m"`, 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			made := newIdentityHost(t, c.provider, CreateProvider).rebuild(c.api, "/v1/from/the/client?trace=1", identityJsonType, c.body)
			require.Empty(t, made.failure)
			require.Equal(t, c.path, made.path)
			require.JSONEq(t, c.want, made.body)
		})
	}
	t.Run("Kling Chat Completions", func(t *testing.T) {
		made := newIdentityHost(t, kling, CreateProvider).rebuild(ApiNameChatCompletion, "/v1/chat/completions", identityJsonType, chat)
		require.Empty(t, made.failure)
		require.NotContains(t, made.path, "2video")
		require.Equal(t, "up-m", gjson.Get(made.body, "model").String())
		require.False(t, gjson.Get(made.body, "model_name").Exists(), made.body)
	})
}

// The default transform is given the API too. Few bodies tell one API from another there, so the first of these tests
// finds out whether any does: else the second would prove nothing.
func TestRetryApiIdentityOfTheHelpersDefaultTransform(t *testing.T) {
	recorder := &identityRecorder{}
	host := newIdentityHost(t, identityMapped, identityDouble(recorder, recorder))
	told := 0
	for _, request := range identityDefaultRequests {
		chat, chatFailure := host.identityDefaultTransform(ApiNameChatCompletion, request.contentType, request.body)
		for _, api := range append([]ApiName{identityImageEditApi}, identityApis...) {
			want, failure := host.identityDefaultTransform(api, request.contentType, request.body)
			if want != chat || failure != chatFailure {
				told++
			}
			made := host.rebuild(api, identityPath, request.contentType, request.body)
			require.Equal(t, failure, made.failure, "%s, %s", request.name, api)
			require.Equal(t, want, made.body, "%s, %s", request.name, api)
		}
	}
	require.NotZero(t, told, "some request tells an API from Chat Completions")
}

// The helper's parameters, whose order both callers rely on.
var _ func(*ProviderConfig, wrapper.HttpContext, Provider, ApiName, [][2]string, []byte) (http.Header, []byte, error) = (*ProviderConfig).transformRequestHeadersAndBody
