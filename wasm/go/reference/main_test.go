// Whole requests through the plugin, against the SDK's host: once as native Go and once as the compiled module. The module
// is WASM_FILE_PATH's, or built here; where there is none the tests fail, since a skipped module looks like a good one.
package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/proxytest"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
	"github.com/higress-group/wasm-go/pkg/test"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

func TestMain(m *testing.M) {
	os.Exit(runWithModule(m))
}

func runWithModule(m *testing.M) int {
	module := os.Getenv("WASM_FILE_PATH")
	if module == "" {
		dir, err := os.MkdirTemp("", "reference")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		module = filepath.Join(dir, "main.wasm")
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-buildmode=c-shared", "-o", module, ".")
		build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		if output, err := build.CombinedOutput(); err != nil {
			panic("the module does not build: " + string(output))
		}
		os.Setenv("WASM_FILE_PATH", module)
	}
	if _, err := os.Stat(module); err != nil {
		panic("no module to test: " + err.Error())
	}
	return m.Run()
}

// One RunTest for all: the host compiles the module anew for each.
func TestPlugin(t *testing.T) {
	test.RunTest(t, func(t *testing.T) {
		t.Run("configuration", testConfiguration)
		t.Run("first attempt", testFirstAttempt)
		t.Run("requests of others", testRequestsOfOthers)
		t.Run("bad body", testBadBody)
		t.Run("response", testResponse)
		t.Run("no retry", testNoRetry)
		t.Run("video retry", testVideoRetry)
		t.Run("chat retry", testChatRetry)
		t.Run("retries run out", testRetriesRunOut)
		t.Run("health check", testHealthCheck)
	})
}

const (
	kling  = `{"type":"kling","apiTokens":["key-a","key-b"],"modelMapping":{"m":"kling-v1"},"retryOnFailure":{"enabled":true}}`
	openai = `{"type":"openai","apiTokens":["key-a","key-b"],"modelMapping":{"*":"up-m"},"retryOnFailure":{"enabled":true}}`
	cohere = `{"type":"cohere","apiTokens":["key-a","key-b"],"retryOnFailure":{"enabled":true}}`
)

func startPlugin(t *testing.T, providerJson string) test.TestHost {
	t.Helper()
	host, status := test.NewTestHost(json.RawMessage(`{"provider":` + providerJson + `}`))
	t.Cleanup(host.Reset)
	require.Equal(t, types.OnPluginStartStatusOK, status)
	return host
}

// request sends a client's request and returns what goes upstream.
func request(t *testing.T, host test.TestHost, path, body string) (headers map[string]string, upstreamBody string) {
	t.Helper()
	host.InitHttp()
	action := host.CallOnHttpRequestHeaders([][2]string{
		{":authority", "client.test"}, {":path", path}, {":method", "POST"},
		{"content-type", "application/json"}, {"content-length", "9"},
		{"accept-encoding", "gzip"}, {"authorization", "Bearer client's"},
	})
	require.Equal(t, types.HeaderStopIteration, action)
	require.Equal(t, types.ActionContinue, host.CallOnHttpRequestBody([]byte(body)))
	return headerMap(host.GetRequestHeaders()), string(host.GetRequestBody())
}

func headerMap(pairs [][2]string) map[string]string {
	headers := map[string]string{}
	for _, pair := range pairs {
		headers[pair[0]] = pair[1]
	}
	return headers
}

func respond(host test.TestHost, status string) types.Action {
	return host.CallOnHttpResponseHeaders([][2]string{{":status", status}, {"content-type", "application/json"}, {"content-length", "9"}})
}

func onlyCallout(t *testing.T, host test.TestHost) proxytest.HttpCalloutAttribute {
	t.Helper()
	callouts := host.GetHttpCalloutAttributes()
	require.Len(t, callouts, 1)
	return callouts[0]
}

func otherKey(authorization string) string {
	return map[string]string{"Bearer key-a": "Bearer key-b", "Bearer key-b": "Bearer key-a"}[authorization]
}

func testConfiguration(t *testing.T) {
	const providers = `{"providers":[{"id":"one","type":"kling","apiTokens":["a"]},{"id":"two","type":"nobody"}],"activeProviderId":`
	for _, c := range []struct {
		name, config string
		want         types.OnPluginStartStatus
		why          string
	}{
		{"list", providers + `"one"}`, types.OnPluginStartStatusOK, ""},
		{"list, bad provider", providers + `"two"}`, types.OnPluginStartStatusFailed, `no provider of type \"nobody\"`},
		{"list, unknown id", providers + `"three"}`, types.OnPluginStartStatusFailed, `no provider has the id`},
		{"list, no id", providers + `""}`, types.OnPluginStartStatusFailed, "needs an activeProviderId"},
		{"no provider", `{"x":1}`, types.OnPluginStartStatusFailed, "needs a provider"},
		{"no type", `{"provider":{"apiTokens":["a"]}}`, types.OnPluginStartStatusFailed, "needs a type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			host, status := test.NewTestHost(json.RawMessage(c.config))
			defer host.Reset()
			require.Equal(t, c.want, status)
			require.Contains(t, strings.Join(host.GetWarnLogs(), "\n"), strings.ReplaceAll(c.why, `\`, ""))
		})
	}
}

func testFirstAttempt(t *testing.T) {
	for _, c := range []struct{ name, provider, path, body, wantHost, wantPath, wantBody string }{
		{"text video", kling, "/v1/videos?trace=1", `{"model":"m","prompt":"p"}`,
			"api-singapore.klingai.com", "/v1/videos/text2video?trace=1", `{"prompt":"p","model_name":"kling-v1"}`},
		{"image video", kling, "/v1/videos", `{"model":"m","image":"i"}`,
			"api-singapore.klingai.com", "/v1/videos/image2video", `{"image":"i","model_name":"kling-v1"}`},
		{"based image video", strings.Replace(kling, "{", `{"providerBasePath":"/base","providerDomain":"up.test",`, 1),
			"/v1/videos?x", `{"image":"i"}`, "up.test", "/base/v1/videos/image2video?x", `{"image":"i"}`},
		{"chat", openai, "/route/v1/chat/completions", `{"model":"m","messages":[]}`,
			"api.openai.com", "/v1/chat/completions", `{"model":"up-m","messages":[]}`},
		{"cohere embeddings", cohere, "/v1/embeddings", `{"model":"m","input":"one"}`,
			"api.cohere.com", "/v2/embed", `{"model":"m","texts":["one"],"input_type":"search_document","embedding_types":["float"]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			headers, body := request(t, startPlugin(t, c.provider), c.path, c.body)
			require.Equal(t, c.wantHost, headers[":authority"])
			require.Equal(t, c.wantPath, headers[":path"])
			require.Equal(t, "POST", headers[":method"])
			require.Contains(t, []string{"Bearer key-a", "Bearer key-b"}, headers["authorization"])
			require.NotContains(t, headers, "content-length")
			require.NotContains(t, headers, "accept-encoding")
			require.JSONEq(t, c.wantBody, body)
		})
	}
}

func testRequestsOfOthers(t *testing.T) {
	t.Run("no model's path", func(t *testing.T) {
		host := startPlugin(t, kling)
		sent := [][2]string{{":authority", "client.test"}, {":path", "/v1/videos/7"}, {":method", "GET"}}
		require.Equal(t, types.ActionContinue, host.CallOnHttpRequestHeaders(sent, test.WithEndOfStream(true)))
		require.Equal(t, sent, host.GetRequestHeaders())
		require.Equal(t, types.ActionContinue, respond(host, "503"))
		require.Empty(t, host.GetHttpCalloutAttributes())
	})
	t.Run("an API the provider lacks", func(t *testing.T) {
		host := startPlugin(t, kling)
		host.CallOnHttpRequestHeaders([][2]string{{":authority", "client.test"}, {":path", "/v1/chat/completions"}, {":method", "POST"}})
		answer := host.GetLocalResponse()
		require.NotNil(t, answer)
		require.EqualValues(t, 404, answer.StatusCode)
		require.Equal(t, types.ActionContinue, respond(host, "404"), "our own answer is not retried")
		require.Empty(t, host.GetHttpCalloutAttributes())
	})
}

func testBadBody(t *testing.T) {
	host := startPlugin(t, strings.Replace(kling, "{", `{"failover":{"enabled":true,"failureThreshold":1,"healthCheckModel":"m"},`, 1))
	host.CallOnHttpRequestHeaders([][2]string{{":authority", "client.test"}, {":path", "/v1/videos"}, {":method", "POST"}})
	require.Equal(t, types.ActionPause, host.CallOnHttpRequestBody([]byte(`not JSON`)))
	answer := host.GetLocalResponse()
	require.NotNil(t, answer)
	require.EqualValues(t, 400, answer.StatusCode)
	require.Contains(t, gjson.GetBytes(answer.Data, "error.message").String(), "must be a JSON object")

	require.Equal(t, types.ActionContinue, respond(host, "400"))
	require.Empty(t, host.GetHttpCalloutAttributes(), "our own answer is not retried")
	host.Tick()
	require.Empty(t, host.GetCalloutAttributesFromContext(proxytest.PluginContextID), "nor counted against the token")
}

func testResponse(t *testing.T) {
	for _, c := range []struct{ name, provider, path, body, response, want string }{
		{"text video", kling, "/v1/videos", `{}`, `{"data":{"task_id":"7"}}`, `{"data":{"task_id":"kling-t2v-7"}}`},
		{"image video", kling, "/v1/videos", `{"images":["i"]}`, `{"task_id":"7"}`, `{"task_id":"kling-i2v-7"}`},
		{"openai", openai, "/v1/chat/completions", `{}`, `{"id": "7"}`, `{"id": "7"}`},
		{"not what was expected", cohere, "/v1/embeddings", `{"input":"x"}`, `[]`, `[]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := startPlugin(t, c.provider)
			request(t, host, c.path, c.body)
			require.Equal(t, types.ActionContinue, respond(host, "200"))
			_, hasLength := headerMap(host.GetResponseHeaders())["content-length"]
			require.Equal(t, c.provider == openai, hasLength, "the length stays where the body does")
			host.CallOnHttpResponseBody([]byte(c.response))
			require.Equal(t, c.want, string(host.GetResponseBody()))
		})
	}
}

func testNoRetry(t *testing.T) {
	for _, c := range []struct{ name, provider, body, status string }{
		{"status", strings.Replace(openai, `"enabled":true`, `"enabled":true,"retryOnStatus":["503"]`, 1), `{}`, "500"},
		{"streaming", openai, `{"stream":true}`, "503"},
		{"not enabled", `{"type":"openai","apiTokens":["key-a","key-b"]}`, `{}`, "503"},
		{"one token", strings.Replace(openai, `,"key-b"`, ``, 1), `{}`, "503"},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := startPlugin(t, c.provider)
			request(t, host, "/v1/chat/completions", c.body)
			require.Equal(t, types.ActionContinue, respond(host, c.status))
			require.Empty(t, host.GetHttpCalloutAttributes())
		})
	}
}

// The path and the body of a video's retry are the subject of the proof and not asserted here: this tree carries the defect
// (Higress #4396), and these tests pass before and after the fix.
func testVideoRetry(t *testing.T) {
	for _, c := range []struct{ name, body, taskId string }{
		{"text", `{"model":"m"}`, "kling-t2v-7"},
		{"image", `{"model":"m","image":"i"}`, "kling-i2v-7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := startPlugin(t, kling)
			first, _ := request(t, host, "/v1/videos", c.body)
			require.Equal(t, types.HeaderStopAllIterationAndWatermark, respond(host, "503"))

			retry := onlyCallout(t, host)
			headers := headerMap(retry.Headers)
			require.Equal(t, "test-cluster-default", retry.Upstream)
			require.Equal(t, "POST", headers[":method"])
			require.Equal(t, first[":authority"], headers[":authority"])
			require.Equal(t, otherKey(first["authorization"]), headers["authorization"])

			host.CallOnHttpCall([][2]string{{":status", "200"}, {"content-length", "9"}, {"x-up", "kept"}}, []byte(`{"data":{"task_id":"7"}}`))
			answer := host.GetLocalResponse()
			require.NotNil(t, answer)
			require.EqualValues(t, 200, answer.StatusCode)
			require.Equal(t, c.taskId, gjson.GetBytes(answer.Data, "data.task_id").String())
			require.Equal(t, [][2]string{{"x-up", "kept"}}, answer.Headers)

			require.Equal(t, types.ActionContinue, respond(host, "200"))
			require.Contains(t, headerMap(host.GetResponseHeaders()), "content-length", "our answer passes the response phases untouched")
			require.Empty(t, host.GetHttpCalloutAttributes())
		})
	}
}

func testChatRetry(t *testing.T) {
	host := startPlugin(t, openai)
	first, firstBody := request(t, host, "/route/v1/chat/completions?x=y", `{"model":"m","messages":[{"role":"user"}]}`)
	require.Equal(t, types.HeaderStopAllIterationAndWatermark, respond(host, "429"))

	retry := onlyCallout(t, host)
	headers := headerMap(retry.Headers)
	for _, same := range []string{":method", ":authority", ":path", "content-type"} {
		require.Equal(t, first[same], headers[same])
	}
	require.Equal(t, otherKey(first["authorization"]), headers["authorization"])
	require.Equal(t, firstBody, string(retry.Body))

	host.CallOnHttpCall([][2]string{{":status", "200"}}, []byte(`{"id":"7"}`))
	require.Equal(t, `{"id":"7"}`, string(host.GetLocalResponse().Data))

	for _, want := range []string{"retry 1 of at most 1 is out", "got status 200"} {
		require.Contains(t, ourInfoLogs(host), want)
	}
	require.NotContains(t, ourInfoLogs(host), "key-", "no token in a log line")
}

// ourInfoLogs leaves out the lines of the SDK's HTTP client.
func ourInfoLogs(host test.TestHost) string {
	var ours []string
	for _, line := range host.GetInfoLogs() {
		if strings.HasPrefix(line, "[ai-proxy]") {
			ours = append(ours, line)
		}
	}
	return strings.Join(ours, "\n")
}

func testRetriesRunOut(t *testing.T) {
	for _, c := range []struct {
		name   string
		tokens string
		max    string
		want   int // attempts in all
	}{
		{"of the count", `["k1","k2","k3","k4"]`, "2", 3},
		{"of the tokens", `["k1","k2"]`, "9", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := startPlugin(t, `{"type":"openai","apiTokens":`+c.tokens+`,"retryOnFailure":{"enabled":true,"maxRetries":`+c.max+`}}`)
			first, _ := request(t, host, "/v1/chat/completions", `{}`)
			used := map[string]bool{first["authorization"]: true}
			require.Equal(t, types.HeaderStopAllIterationAndWatermark, respond(host, "503"))
			for len(host.GetHttpCalloutAttributes()) > 0 {
				require.Equal(t, types.HeaderStopAllIterationAndWatermark, host.GetHttpStreamAction(), "the response waits")
				used[headerMap(onlyCallout(t, host).Headers)["authorization"]] = true
				host.CallOnHttpCall([][2]string{{":status", "500"}}, nil)
			}
			require.Len(t, used, c.want, "each attempt with a token of its own")
			require.Nil(t, host.GetLocalResponse())
			require.Equal(t, types.ActionContinue, host.GetHttpStreamAction(), "the first response goes on")
			require.Contains(t, ourInfoLogs(host), "got status 500")
		})
	}
}

func testHealthCheck(t *testing.T) {
	host := startPlugin(t, `{"type":"openai","apiTokens":["key-a","key-b"],"modelMapping":{"m":"up-m"},"failover":{"enabled":true,
		"failureThreshold":2,"healthCheckInterval":1,"healthCheckModel":"m","failoverOnStatus":["503"]}}`)
	probes := func() []proxytest.HttpCalloutAttribute {
		return host.GetCalloutAttributesFromContext(proxytest.PluginContextID)
	}
	failTwice := func() string {
		failures := map[string]int{}
		for {
			headers, _ := request(t, host, "/v1/videos?x=y", `{}`)
			key := headers["authorization"]
			respond(host, "503")
			if failures[key]++; failures[key] == 2 {
				return key
			}
		}
	}
	host.Tick()
	require.Empty(t, probes(), "nothing to probe yet")

	bad := failTwice()
	for i := 0; i < 10; i++ {
		headers, _ := request(t, host, "/v1/videos", `{}`)
		require.Equal(t, otherKey(bad), headers["authorization"], "only the other token is in use")
		respond(host, "200")
	}

	tick := func() proxytest.HttpCalloutAttribute {
		require.Eventually(t, func() bool { host.Tick(); return len(probes()) > 0 }, 2e9, 2e6)
		return probes()[0]
	}
	probe := tick()
	headers := headerMap(probe.Headers)
	require.Equal(t, "test-cluster-default", probe.Upstream)
	require.Equal(t, "/v1/chat/completions", headers[":path"], "a probe is Chat Completions, whatever has failed")
	require.Equal(t, "api.openai.com", headers[":authority"])
	require.Equal(t, bad, headers["authorization"])
	require.JSONEq(t, `{"model":"up-m","messages":[{"role":"user","content":"Are you there?"}]}`, string(probe.Body))

	host.CallOnHttpCallResponse(probe.CalloutID, [][2]string{{":status", "503"}}, nil, nil)
	require.NotContains(t, ourInfoLogs(host), "back in use")
	host.CallOnHttpCallResponse(tick().CalloutID, [][2]string{{":status", "200"}}, nil, nil)
	require.Contains(t, ourInfoLogs(host), "is back in use")
}
