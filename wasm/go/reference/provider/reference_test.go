// What the provider package's tests share, and the tests of what all providers share: tokens, models, paths, bodies and
// configuration. Names start with "ref" and files with "reference_", so that other tests can be laid over this package.
package provider

import (
	"net/http"
	"testing"

	"github.com/higress-group/wasm-go/pkg/log"
	"github.com/higress-group/wasm-go/pkg/wrapper"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// refContext is a request's memory and nothing else: whatever would need a host panics.
type refContext struct {
	wrapper.HttpContext
	values map[string]any
}

func newRefContext() *refContext {
	return &refContext{values: map[string]any{}}
}

func (c *refContext) SetContext(key string, value any) { c.values[key] = value }
func (c *refContext) GetContext(key string) any        { return c.values[key] }

func (c *refContext) GetBoolContext(key string, absent bool) bool {
	return refValue(c, key, absent)
}

func (c *refContext) GetStringContext(key, absent string) string {
	return refValue(c, key, absent)
}

func (c *refContext) GetByteSliceContext(key string, absent []byte) []byte {
	return refValue(c, key, absent)
}

func refValue[T any](c *refContext, key string, absent T) T {
	if value, ok := c.values[key].(T); ok {
		return value
	}
	return absent
}

type refLog struct{ log.Log }

func (refLog) Warn(string)           {}
func (refLog) Debugf(string, ...any) {}
func (refLog) Infof(string, ...any)  {}
func (refLog) Warnf(string, ...any)  {}
func (refLog) Errorf(string, ...any) {}

func init() {
	log.SetPluginLog(refLog{})
}

func refConfig(t *testing.T, json string) *ProviderConfig {
	t.Helper()
	config := &ProviderConfig{}
	config.FromJson(gjson.Parse(json))
	require.NoError(t, config.Validate())
	return config
}

func refProvider(t *testing.T, config *ProviderConfig) Provider {
	t.Helper()
	provider, err := CreateProvider(*config)
	require.NoError(t, err)
	return provider
}

func TestReferenceTokens(t *testing.T) {
	config := refConfig(t, `{"type":"kling","apiTokens":["a","b"]}`)
	seen := map[string]bool{}
	for i := 0; i < 100; i++ {
		ctx := newRefContext()
		config.SetAvailableApiTokens(ctx)
		config.SetApiTokenInUse(ctx)
		require.Equal(t, []string{"a", "b"}, config.GetAvailableApiToken(ctx))
		seen[config.GetApiTokenInUse(ctx)] = true
	}
	require.Equal(t, map[string]bool{"a": true, "b": true}, seen)

	none, others := draw(nil)
	require.Empty(t, none)
	require.Empty(t, others)
	require.Equal(t, []string{"b"}, without([]string{"a", "b", "a"}, "a"))
	require.Equal(t, "#2 of 2", config.tokenLabel("b"))
	require.NotContains(t, config.tokenLabel("a-secret"), "a-secret")
}

func TestReferenceTokensOfAnUnparsedConfig(t *testing.T) {
	config, ctx := &ProviderConfig{apiTokens: []string{"only"}}, newRefContext()
	config.SetAvailableApiTokens(ctx)
	config.SetApiTokenInUse(ctx)
	require.Equal(t, "only", config.GetApiTokenInUse(ctx))
}

func TestReferenceModelMapping(t *testing.T) {
	const mapping = `{"m1":"exact","pre-*":"prefix","pre-long-*":"longer","*":"rest"}`
	for _, test := range []struct{ name, mapping, model, want string }{
		{"exact", mapping, "m1", "exact"},
		{"prefix", mapping, "pre-x", "prefix"},
		{"longest prefix", mapping, "pre-long-x", "longer"},
		{"wildcard", mapping, "other", "rest"},
		{"no wildcard", `{"m1":"exact"}`, "other", "other"},
		{"no mapping", `{}`, "m1", "m1"},
		{"mapped to nothing", `{"m1":""}`, "m1", "m1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := refConfig(t, `{"type":"openai","apiTokens":["a"],"modelMapping":`+test.mapping+`}`)
			require.Equal(t, test.want, config.mapModel(test.model))
		})
	}
}

func TestReferenceRequestHeaders(t *testing.T) {
	for _, test := range []struct {
		name, config     string
		api              ApiName
		path             string
		wantPath, wantAt string
	}{
		{"kling", `"type":"kling"`, ApiNameVideos, "/v1/videos?trace=1", "/v1/videos/text2video?trace=1", klingDialect.domain},
		{"kling has no chat", `"type":"kling"`, ApiNameChatCompletion, "/v1/videos?a=b", "/v1/videos?a=b", klingDialect.domain},
		{"domain", `"type":"kling","providerDomain":"kling.test"`, ApiNameVideos, "/v1/videos", "/v1/videos/text2video", "kling.test"},
		{"openai chat", `"type":"openai"`, ApiNameChatCompletion, "/any/v1/chat/completions", "/v1/chat/completions", openaiDialect.domain},
		{"openai embeddings", `"type":"openai"`, ApiNameEmbeddings, "/v1/embeddings?x=y", "/v1/embeddings?x=y", openaiDialect.domain},
		{"openai chat at another path", `"type":"openai"`, ApiNameChatCompletion, "/v1/videos", "/v1/chat/completions", openaiDialect.domain},
		{"cohere chat", `"type":"cohere"`, ApiNameChatCompletion, "/v1/chat/completions", "/v2/chat", cohereDialect.domain},
		{"cohere embeddings", `"type":"cohere"`, ApiNameEmbeddings, "/v1/embeddings", "/v2/embed", cohereDialect.domain},
	} {
		t.Run(test.name, func(t *testing.T) {
			config, ctx := refConfig(t, `{"apiTokens":["key"],`+test.config+`}`), newRefContext()
			config.SetAvailableApiTokens(ctx)
			config.SetApiTokenInUse(ctx)
			headers := headersFromPairs([][2]string{{":path", test.path}, {":authority", "client.test"}, {"authorization", "client's"}})

			refProvider(t, config).(withHeaders).TransformRequestHeaders(ctx, test.api, headers)

			require.Equal(t, [][2]string{
				{":authority", test.wantAt}, {":path", test.wantPath}, {"authorization", "Bearer key"},
			}, pairsFromHeaders(headers))
		})
	}
}

func TestReferenceBasePath(t *testing.T) {
	for _, test := range []struct{ base, path, want string }{
		{"", "/v1/x", "/v1/x"},
		{"/base", "/v1/x?y", "/base/v1/x?y"},
		{"/base/", "/v1/x", "/base/v1/x"},
		{"/base", "/base/v1/x", "/base/v1/x"},
		{"/base", "/basement", "/base/basement"},
	} {
		config := refConfig(t, `{"type":"openai","apiTokens":["a"],"providerBasePath":"`+test.base+`"}`)
		headers := http.Header{":path": {test.path}}
		config.rebase(headers)
		require.Equal(t, test.want, headers.Get(":path"))
	}
}

func TestReferenceDefaultBody(t *testing.T) {
	config := refConfig(t, `{"type":"openai","apiTokens":["a"],"modelMapping":{"m":"up-m"}}`)
	for _, test := range []struct{ name, body, want string }{
		{"mapped", `{"x": 1, "model":"m","y":[2]}`, `{"x": 1, "model":"up-m","y":[2]}`},
		{"not mapped", `{"model":"n"}`, `{"model":"n"}`},
		{"no model", `{"x":1}`, `{"x":1}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			body, err := config.defaultTransformRequestBody(newRefContext(), ApiNameEmbeddings, []byte(test.body))
			require.NoError(t, err)
			require.Equal(t, test.want, string(body))
		})
	}
	for _, bad := range []string{``, `[]`, `"text"`, `{"model":`} {
		_, err := config.defaultTransformRequestBody(newRefContext(), ApiNameEmbeddings, []byte(bad))
		require.ErrorContains(t, err, string(ApiNameEmbeddings), "body %q", bad)
	}
}

func TestReferenceConfigDefaults(t *testing.T) {
	config := refConfig(t, `{"type":"kling","apiTokens":["a"]}`)
	require.Equal(t, "kling", config.kind)
	require.Equal(t, "default", config.id)
	require.Equal(t, retries{most: 1, patience: 30_000, on: statuses{"4.*", "5.*"}}, config.retries)
	require.Equal(t, failover{setAsideAt: 3, backAt: 1, every: 5_000, patience: 5_000, on: statuses{"4.*", "5.*"}}, config.failover)
}

func TestReferenceConfigKeys(t *testing.T) {
	config := refConfig(t, `{"id":"k","type":"kling","apiTokens":["a"],"providerDomain":"up.test","providerBasePath":"/base/","other":1,
		"retryOnFailure":{"enabled":true,"maxRetries":2,"retryTimeout":3,"retryOnStatus":["503",504]},
		"failover":{"enabled":true,"failureThreshold":4,"successThreshold":5,"healthCheckInterval":6,"healthCheckTimeout":7,
		"healthCheckModel":"m","failoverOnStatus":["500"]}}`)
	require.Equal(t, &ProviderConfig{
		id: "k", kind: "kling", apiTokens: []string{"a"}, models: map[string]string{},
		providerDomain: "up.test", providerBasePath: "/base",
		retries:  retries{enabled: true, most: 2, patience: 3, on: statuses{"503", "504"}},
		failover: failover{enabled: true, setAsideAt: 4, backAt: 5, every: 6, patience: 7, model: "m", on: statuses{"500"}},
	}, config)
}

func TestReferenceConfigErrors(t *testing.T) {
	for _, test := range []struct{ name, json, want string }{
		{"no type", `{"apiTokens":["a"]}`, "needs a type"},
		{"unknown type", `{"type":"nobody","apiTokens":["a"]}`, `no provider of type "nobody"`},
		{"no tokens", `{"id":"k","type":"kling"}`, "provider k: apiTokens"},
		{"an empty token", `{"type":"kling","apiTokens":["a",""]}`, "an empty token"},
		{"base path", `{"type":"kling","apiTokens":["a"],"providerBasePath":"base"}`, "must start with a slash"},
		{"no retries", `{"type":"kling","apiTokens":["a"],"retryOnFailure":{"maxRetries":0}}`, "maxRetries"},
		{"retries not a number", `{"type":"kling","apiTokens":["a"],"retryOnFailure":{"maxRetries":"2"}}`, "maxRetries"},
		{"no time", `{"type":"kling","apiTokens":["a"],"retryOnFailure":{"retryTimeout":-1}}`, "retryTimeout"},
		{"retry status", `{"type":"kling","apiTokens":["a"],"retryOnFailure":{"retryOnStatus":["5("]}}`, "retryOnStatus"},
		{"threshold", `{"type":"kling","apiTokens":["a"],"failover":{"failureThreshold":0}}`, "thresholds"},
		{"failover status", `{"type":"kling","apiTokens":["a"],"failover":{"failoverOnStatus":["*"]}}`, "failoverOnStatus"},
		{"no model", `{"type":"kling","apiTokens":["a"],"failover":{"enabled":true}}`, "healthCheckModel"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := &ProviderConfig{}
			config.FromJson(gjson.Parse(test.json))
			require.ErrorContains(t, config.Validate(), test.want)
		})
	}
	_, err := CreateProvider(ProviderConfig{kind: "nobody"})
	require.ErrorContains(t, err, `no provider of type "nobody"`)
}
