// Tests of Cohere: both APIs' bodies, there and back.
package provider

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const refCohere = `{"type":"cohere","apiTokens":["a"],"modelMapping":{"m":"up-m"}}`

func TestReferenceCohereRequest(t *testing.T) {
	const embed = `{"model":"up-m","texts":["one"],"input_type":"search_document","embedding_types":["float"]}`
	for _, test := range []struct {
		name       string
		api        ApiName
		body, want string
	}{
		{"embeddings", ApiNameEmbeddings, `{"model":"m","input":["one"]}`, embed},
		{"embeddings of one text", ApiNameEmbeddings, `{"model":"m","input":"one","user":"u"}`, embed},
		{"chat", ApiNameChatCompletion, `{"model":"m","messages":[],"top_p":0.5,"stop":"x","max_completion_tokens":9}`,
			`{"model":"up-m","messages":[],"p":0.5,"stop_sequences":["x"],"max_tokens":9}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			provider := refProvider(t, refConfig(t, refCohere)).(withBody)
			body, err := provider.TransformRequestBody(newRefContext(), test.api, []byte(test.body))
			require.NoError(t, err)
			require.JSONEq(t, test.want, string(body))
		})
	}
	_, err := refProvider(t, refConfig(t, refCohere)).(withBody).
		TransformRequestBody(newRefContext(), ApiNameChatCompletion, []byte(`{"stream":true}`))
	require.ErrorContains(t, err, "streams")
}

func TestReferenceCohereResponse(t *testing.T) {
	for _, test := range []struct {
		name       string
		api        ApiName
		body, want string
	}{
		{"embeddings", ApiNameEmbeddings,
			`{"embeddings":{"float":[[0.5,1],[2,3]]},"meta":{"billed_units":{"input_tokens":4}}}`,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,1]},
			{"object":"embedding","index":1,"embedding":[2,3]}],"usage":{"prompt_tokens":4,"total_tokens":4}}`},
		{"chat", ApiNameChatCompletion,
			`{"id":"c","finish_reason":"MAX_TOKENS","message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
			"usage":{"tokens":{"input_tokens":1,"output_tokens":2}}}`,
			`{"id":"c","object":"chat.completion","choices":[{"index":0,"finish_reason":"length",
			"message":{"role":"assistant","content":"ab"}}],
			"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			provider := refProvider(t, refConfig(t, refCohere)).(withAnswer)
			body, err := provider.translateAnswer(newRefContext(), test.api, []byte(test.body))
			require.NoError(t, err)
			require.JSONEq(t, test.want, string(body))
		})
	}
}
