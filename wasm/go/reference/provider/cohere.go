// Cohere (API v2) has bodies of its own: its chat is near the client's, its embeddings are not. Requests and answers are
// converted, streams are not.
package provider

import (
	"errors"

	"github.com/higress-group/wasm-go/pkg/wrapper"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

var cohereDialect = dialect{
	domain: "api.cohere.com",
	paths:  map[ApiName]string{ApiNameChatCompletion: "/v2/chat", ApiNameEmbeddings: "/v2/embed"},
	build:  func(p common) Provider { return cohereProvider{p} },
}

type cohereProvider struct{ common }

func (p cohereProvider) TransformRequestBody(ctx wrapper.HttpContext, apiName ApiName, body []byte) ([]byte, error) {
	body, err := p.config.defaultTransformRequestBody(ctx, apiName, body)
	if err != nil {
		return nil, err
	}
	if apiName == ApiNameEmbeddings {
		return cohereEmbedRequest(body)
	}
	return cohereChatRequest(body)
}

// cohereChatRequest renames what Cohere names otherwise and leaves the rest, the messages among it, alone.
func cohereChatRequest(body []byte) ([]byte, error) {
	if gjson.GetBytes(body, "stream").Bool() {
		return nil, errors.New("streams from cohere are not supported")
	}
	for _, rename := range [][2]string{{"top_p", "p"}, {"stop", "stop_sequences"}, {"max_completion_tokens", "max_tokens"}} {
		value := gjson.GetBytes(body, rename[0])
		if !value.Exists() {
			continue
		}
		raw := value.Raw
		if rename[0] == "stop" && !value.IsArray() {
			raw = "[" + raw + "]"
		}
		var err error
		if body, err = sjson.SetRawBytes(body, rename[1], []byte(raw)); err != nil {
			return nil, err
		}
		if body, err = sjson.DeleteBytes(body, rename[0]); err != nil {
			return nil, err
		}
	}
	return body, nil
}

func cohereEmbedRequest(body []byte) ([]byte, error) {
	input := gjson.GetBytes(body, "input")
	texts := input.Value()
	if !input.IsArray() {
		texts = []any{texts}
	}
	return setAll([]byte(`{}`), []field{
		{"model", gjson.GetBytes(body, "model").String()},
		{"texts", texts},
		{"input_type", "search_document"}, // Cohere requires one; the client's API does not know it
		{"embedding_types", []string{"float"}},
	})
}

func (p cohereProvider) translateAnswer(_ wrapper.HttpContext, apiName ApiName, body []byte) ([]byte, error) {
	if err := requireJsonObject(apiName, body); err != nil {
		return nil, err
	}
	if apiName == ApiNameEmbeddings {
		return cohereEmbedResponse(gjson.ParseBytes(body))
	}
	return cohereChatResponse(gjson.ParseBytes(body))
}

func cohereChatResponse(body gjson.Result) ([]byte, error) {
	finishReason := "stop"
	if body.Get("finish_reason").String() == "MAX_TOKENS" {
		finishReason = "length"
	}
	text := ""
	for _, part := range body.Get("message.content.#.text").Array() {
		text += part.String()
	}
	read, written := body.Get("usage.tokens.input_tokens").Int(), body.Get("usage.tokens.output_tokens").Int()
	return setAll([]byte(`{}`), []field{
		{"id", body.Get("id").String()},
		{"object", "chat.completion"},
		{"choices.0.index", 0},
		{"choices.0.message.role", "assistant"},
		{"choices.0.message.content", text},
		{"choices.0.finish_reason", finishReason},
		{"usage.prompt_tokens", read},
		{"usage.completion_tokens", written},
		{"usage.total_tokens", read + written},
	})
}

func cohereEmbedResponse(body gjson.Result) ([]byte, error) {
	list := []map[string]any{}
	for i, vector := range body.Get("embeddings.float").Array() {
		list = append(list, map[string]any{"object": "embedding", "index": i, "embedding": vector.Value()})
	}
	read := body.Get("meta.billed_units.input_tokens").Int()
	return setAll([]byte(`{"object":"list"}`), []field{
		{"data", list},
		{"usage.prompt_tokens", read},
		{"usage.total_tokens", read},
	})
}

type field struct {
	path  string
	value any
}

func setAll(body []byte, fields []field) ([]byte, error) {
	var err error
	for _, f := range fields {
		if body, err = sjson.SetBytes(body, f.path, f.value); err != nil {
			return nil, err
		}
	}
	return body, nil
}
