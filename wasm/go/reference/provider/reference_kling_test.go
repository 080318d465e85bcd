// Tests of Kling: text or image, the model's name, the original query, and the task's id on the way back.
package provider

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

const refKling = `{"type":"kling","apiTokens":["a"],"modelMapping":{"m":"kling-v1"}}`

func TestReferenceKlingPath(t *testing.T) {
	for _, test := range []struct{ name, body, want string }{
		{"text", `{"prompt":"p"}`, "/v1/videos/text2video"},
		{"image", `{"image":"i"}`, "/v1/videos/image2video"},
		{"image_url", `{"image_url":"i"}`, "/v1/videos/image2video"},
		{"images", `{"images":["i"]}`, "/v1/videos/image2video"},
		{"image_urls", `{"image_urls":["i"]}`, "/v1/videos/image2video"},
		{"image_tail", `{"image_tail":"i"}`, "/v1/videos/image2video"},
		{"empty image", `{"image":"","images":[],"image_url":null}`, "/v1/videos/text2video"},
	} {
		t.Run(test.name, func(t *testing.T) {
			provider, ctx := refProvider(t, refConfig(t, refKling)), newRefContext()
			ctx.SetContext(CtxRequestPath, "/v1/videos?trace=1")
			headers := http.Header{":path": {"/v1/videos/text2video"}}

			_, err := provider.(withBodyAndHeaders).TransformRequestBodyHeaders(ctx, ApiNameVideos, []byte(test.body), headers)

			require.NoError(t, err)
			require.Equal(t, test.want+"?trace=1", headers.Get(":path"))
		})
	}
}

func TestReferenceKlingBody(t *testing.T) {
	for _, test := range []struct {
		name string
		api  ApiName
		body string
		want string
	}{
		{"video", ApiNameVideos, `{"model":"m", "prompt":"p","n":{"x":1.50}}`, `{"prompt":"p","n":{"x":1.50},"model_name":"kling-v1"}`},
		{"video, model not mapped", ApiNameVideos, `{"model":"n"}`, `{"model_name":"n"}`},
		{"video, no model", ApiNameVideos, `{"model_name":"kept"}`, `{"model_name":"kept"}`},
		{"another API", ApiNameChatCompletion, `{"model":"m","image":"i"}`, `{"model":"kling-v1","image":"i"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			provider := refProvider(t, refConfig(t, refKling)).(withBodyAndHeaders)
			body, err := provider.TransformRequestBodyHeaders(newRefContext(), test.api, []byte(test.body), http.Header{})
			require.NoError(t, err)
			require.JSONEq(t, test.want, string(body))
		})
	}
}

func TestReferenceKlingIsNotABodyHandler(t *testing.T) {
	_, is := refProvider(t, refConfig(t, refKling)).(withBody)
	require.False(t, is, "that interface comes first in the dispatch and knows no headers")
}

func TestReferenceKlingTaskId(t *testing.T) {
	for _, test := range []struct{ name, request, response, want string }{
		{"text", `{}`, `{"code":0,"data":{"task_id":"7"}}`, `{"code":0,"data":{"task_id":"kling-t2v-7"}}`},
		{"image", `{"image":"i"}`, `{"task_id":"7"}`, `{"task_id":"kling-i2v-7"}`},
		{"marked before", `{"image":"i"}`, `{"task_id":"kling-t2v-7"}`, `{"task_id":"kling-t2v-7"}`},
		{"no id", `{}`, `{"code":1}`, `{"code":1}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			provider, ctx := refProvider(t, refConfig(t, refKling)), newRefContext()
			_, err := provider.(withBodyAndHeaders).
				TransformRequestBodyHeaders(ctx, ApiNameVideos, []byte(test.request), http.Header{})
			require.NoError(t, err)
			body, err := provider.(withAnswer).translateAnswer(ctx, ApiNameVideos, []byte(test.response))
			require.NoError(t, err)
			require.JSONEq(t, test.want, string(body))
		})
	}
}
