// Tests of the retry up to the point where it is sent; what comes back is tested with a host, in the main package.
//
// Nothing here asserts the path or the body of a retry that is not Chat Completions: that is the subject of the proof, and
// this tree carries the defect. Nor is the shared helper called, whose parameters a fix may change.
package provider

import (
	"testing"

	"github.com/higress-group/wasm-go/pkg/wrapper"
	"github.com/stretchr/testify/require"
)

// refClient takes requests and never answers.
type refClient struct {
	wrapper.HttpClient
	urls    []string
	headers [][][2]string
	bodies  []string
	timeout uint32
}

func (c *refClient) Post(url string, headers [][2]string, body []byte, _ wrapper.ResponseCallback, timeout ...uint32) error {
	c.urls, c.headers, c.bodies = append(c.urls, url), append(c.headers, headers), append(c.bodies, string(body))
	c.timeout = timeout[0]
	return nil
}

func refFailedRequest(api ApiName, path, body string) *refContext {
	ctx := newRefContext()
	ctx.SetContext(CtxKeyApiName, api)
	ctx.SetContext(CtxRequestHost, "client.test")
	ctx.SetContext(CtxRequestPath, path)
	ctx.SetContext(CtxRequestBody, []byte(body))
	return ctx
}

// refSend sends the retry of a request whose first attempt had a token.
func refSend(t *testing.T, config *ProviderConfig, ctx wrapper.HttpContext, client wrapper.HttpClient, api ApiName, failed string) error {
	t.Helper()
	request := &failedRequest{config, ctx, refProvider(t, config), client, without(config.apiTokens, failed)}
	return request.sendRetryRequest(api)
}

func TestReferenceRetryOfChat(t *testing.T) {
	config := refConfig(t, `{"type":"openai","apiTokens":["a","b"],"modelMapping":{"m":"up-m"},"providerBasePath":"/base",
		"retryOnFailure":{"enabled":true,"retryTimeout":1234}}`)
	ctx := refFailedRequest(ApiNameChatCompletion, "/v1/chat/completions?x=y", `{"model":"m","messages":[]}`)
	client := &refClient{}

	err := refSend(t, config, ctx, client, ApiNameChatCompletion, "a")

	require.NoError(t, err)
	require.Equal(t, []string{"https://api.openai.com/base/v1/chat/completions?x=y"}, client.urls)
	require.Equal(t, []string{`{"model":"up-m","messages":[]}`}, client.bodies)
	require.Equal(t, [][2]string{
		{":authority", "api.openai.com"},
		{":path", "/base/v1/chat/completions?x=y"},
		{"authorization", "Bearer b"},
		{"content-type", "application/json"},
	}, client.headers[0])
	require.EqualValues(t, 1234, client.timeout)
	require.Equal(t, "b", config.GetApiTokenInUse(ctx))
	require.True(t, WasRetried(ctx))
}

func TestReferenceRetryOfVideoTakesAnotherToken(t *testing.T) {
	config := refConfig(t, `{"type":"kling","apiTokens":["a","b"],"retryOnFailure":{"enabled":true}}`)
	ctx := refFailedRequest(ApiNameVideos, "/v1/videos", `{"model":"m"}`)
	client := &refClient{}
	require.NoError(t, refSend(t, config, ctx, client, ApiNameVideos, "b"))
	require.Len(t, client.urls, 1)
	require.Contains(t, client.headers[0], [2]string{"authorization", "Bearer a"})
	require.Equal(t, []string{"a", "b"}, config.apiTokens, "the configuration is not the list that shrinks")
}

func TestReferenceRetryNeedsAnotherToken(t *testing.T) {
	config := refConfig(t, `{"type":"openai","apiTokens":["a"],"retryOnFailure":{"enabled":true}}`)
	ctx, client := refFailedRequest(ApiNameChatCompletion, "/v1/chat/completions", `{}`), &refClient{}
	err := refSend(t, config, ctx, client, ApiNameChatCompletion, "a")
	require.EqualError(t, err, "every usable token was tried")
	require.Empty(t, client.urls)
	require.False(t, WasRetried(ctx))
}

func TestReferenceMayRetry(t *testing.T) {
	const retrying = `{"type":"openai","apiTokens":["a","b"],"retryOnFailure":{"enabled":true,"retryOnStatus":["503","42.*"]}}`
	for _, test := range []struct {
		name, config, status string
		key                  string
		value                any
		want                 bool
	}{
		{"matches", retrying, "503", "", nil, true},
		{"matches a pattern", retrying, "429", "", nil, true},
		{"does not match", retrying, "500", "", nil, false},
		{"not enabled", `{"type":"openai","apiTokens":["a","b"]}`, "503", "", nil, false},
		{"streaming", retrying, "503", wantsStream, true, false},
		{"no body", retrying, "503", CtxRequestBody, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := refFailedRequest(ApiNameChatCompletion, "/v1/chat/completions", `{}`)
			if test.key != "" {
				ctx.SetContext(test.key, test.value)
			}
			require.Equal(t, test.want, refConfig(t, test.config).retriable(ctx, test.status))
		})
	}
}

func TestReferenceMatchStatus(t *testing.T) {
	for _, test := range []struct {
		status, pattern string
		want            bool
	}{
		{"503", "503", true},
		{"503", "5.*", true},
		{"503", "50", false},
		{"1503", "503", false},
		{"404", "403|404", true},
		{"4040", "403|404", false},
		{"503", "4.*", false},
	} {
		require.Equal(t, test.want, statuses{test.pattern}.match(test.status), "%s against %s", test.status, test.pattern)
	}
}
