// Failover: a token that keeps failing is set aside, and a timer asks the provider when it may come back. The rebuilding of
// a request, which the timer shares with retries, is here too.
package provider

import (
	"errors"
	"net/http"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/wasm-go/pkg/log"
	"github.com/higress-group/wasm-go/pkg/wrapper"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

type failover struct {
	enabled             bool
	failureThreshold    int64
	successThreshold    int64
	healthCheckInterval int64 // milliseconds
	healthCheckTimeout  int64 // milliseconds
	healthCheckModel    string
	failoverOnStatus    []string // regular expressions for a whole status

	// Keys under which a request keeps its tokens in its context.
	ctxApiTokenInUse      string
	ctxAvailableApiTokens string
}

func (f *failover) FromJson(json gjson.Result) {
	f.enabled = json.Get("enabled").Bool()
	f.failureThreshold = intOr(json.Get("failureThreshold"), 3)
	f.successThreshold = intOr(json.Get("successThreshold"), 1)
	f.healthCheckInterval = intOr(json.Get("healthCheckInterval"), 5_000)
	f.healthCheckTimeout = intOr(json.Get("healthCheckTimeout"), 5_000)
	f.healthCheckModel = json.Get("healthCheckModel").String()
	f.failoverOnStatus = statusesOr(json.Get("failoverOnStatus"), "4.*", "5.*")
	f.setKeys()
}

func (f *failover) setKeys() {
	f.ctxApiTokenInUse = "apiTokenInUse"
	f.ctxAvailableApiTokens = "availableApiTokens"
}

func (f *failover) Validate() error {
	if f == nil {
		return nil
	}
	for _, n := range []int64{f.failureThreshold, f.successThreshold, f.healthCheckInterval, f.healthCheckTimeout} {
		if n < 1 {
			return errors.New("failover: thresholds, interval and timeout must be numbers of at least 1")
		}
	}
	if f.enabled && f.healthCheckModel == "" {
		return errors.New("failover.healthCheckModel is needed when failover is enabled")
	}
	return validateStatuses("failover.failoverOnStatus", f.failoverOnStatus)
}

func (c *ProviderConfig) isFailoverEnabled() bool {
	return c.failover != nil && c.failover.enabled
}

// failoverKeys holds for a configuration that was not parsed, too: every request has a token, with failover or without.
func (c *ProviderConfig) failoverKeys() *failover {
	if c.failover == nil {
		c.failover = &failover{}
	}
	if c.failover.ctxApiTokenInUse == "" {
		c.failover.setKeys()
	}
	return c.failover
}

// SetApiTokensFailover starts the timer that probes the tokens set aside. Every VM has such a timer; the one that holds the
// lease probes.
func (c *ProviderConfig) SetApiTokensFailover(activeProvider Provider) error {
	if !c.isFailoverEnabled() {
		return nil
	}
	owner := newLeaseOwner()
	wrapper.RegisterTickFunc(c.failover.healthCheckInterval, func() {
		if !c.holdHealthCheckLease(owner) {
			return
		}
		payload, err := c.healthCheckPayload()
		if err != nil {
			log.Errorf("cannot make a health check: %v", err)
			return
		}
		for token, endpoint := range c.unavailableApiTokens() {
			ctx := c.createHttpContext(token, endpoint)
			headers, body, err := c.transformRequestHeadersAndBody(ctx, activeProvider, endpoint.requestHeaders(), payload)
			if err != nil {
				log.Errorf("cannot make a health check: %v", err)
				continue
			}
			c.sendHealthCheck(token, endpoint, headers, body)
		}
	})
	return nil
}

// transformRequestHeadersAndBody turns a client's request into the provider's, outside the phases of a request.
//
// Higress #4396: it takes every request for Chat Completions, so the retry of any other API goes out with the wrong path and
// payload. This tree carries the defect deliberately, to have something to prove a fix on; sendRetryRequest knows the API and
// cannot say it here. For the generated health check, which is a Chat Completions request, the constant is right.
func (c *ProviderConfig) transformRequestHeadersAndBody(ctx wrapper.HttpContext, activeProvider Provider, headers [][2]string, body []byte) (http.Header, []byte, error) {
	modified := headersFromPairs(headers)
	if handler, ok := activeProvider.(TransformRequestHeadersHandler); ok {
		handler.TransformRequestHeaders(ctx, ApiNameChatCompletion, modified)
	}
	if c.providerBasePath != "" {
		modified.Set(":path", c.applyProviderBasePath(modified.Get(":path")))
	}

	var err error
	if handler, ok := activeProvider.(TransformRequestBodyHandler); ok {
		body, err = handler.TransformRequestBody(ctx, ApiNameChatCompletion, body)
	} else if handler, ok := activeProvider.(TransformRequestBodyHeadersHandler); ok {
		body, err = handler.TransformRequestBodyHeaders(ctx, ApiNameChatCompletion, body, modified)
	} else {
		body, err = c.defaultTransformRequestBody(ctx, ApiNameChatCompletion, body)
	}
	if err != nil {
		return nil, nil, err
	}
	return modified, body, nil
}

func (c *ProviderConfig) healthCheckPayload() ([]byte, error) {
	return sjson.SetBytes([]byte(`{"messages":[{"role":"user","content":"who are you?"}]}`), "model", c.failover.healthCheckModel)
}

// createHttpContext makes a context for a request that no client sent. It names no API: a health check chooses its own.
func (c *ProviderConfig) createHttpContext(token string, endpoint healthCheckEndpoint) wrapper.HttpContext {
	// Not NewCommonVmCtx: that would replace the logger of the whole VM.
	vm := wrapper.NewCommonVmCtxWithOptions[struct{}]("ai-proxy")
	ctx := vm.NewPluginContext(0).NewHttpContext(0).(wrapper.HttpContext)
	ctx.SetContext(c.failoverKeys().ctxApiTokenInUse, token)
	ctx.SetContext(CtxRequestHost, endpoint.Host)
	ctx.SetContext(CtxRequestPath, endpoint.Path)
	return ctx
}

func (c *ProviderConfig) sendHealthCheck(token string, endpoint healthCheckEndpoint, headers http.Header, body []byte) {
	client := wrapper.NewClusterClient(wrapper.TargetCluster{Host: headers.Get(":authority"), Cluster: endpoint.Cluster})
	callback := func(status int, _ http.Header, _ []byte) {
		log.Infof("health check of token %s: status %d", c.tokenLabel(token), status)
		c.recordHealthCheck(token, status == http.StatusOK)
	}
	err := client.Post(generateUrl(headers), pairsFromHeaders(headers), body, callback, uint32(c.failover.healthCheckTimeout))
	if err != nil {
		log.Errorf("cannot send the health check of token %s: %v", c.tokenLabel(token), err)
	}
}

// recordApiTokenFailure counts a failure, and at the threshold sets the token aside with the place where it failed last.
func (c *ProviderConfig) recordApiTokenFailure(ctx wrapper.HttpContext, token, status string) {
	if !c.isFailoverEnabled() || !matchStatus(status, c.failover.failoverOnStatus) {
		return
	}
	cluster, err := proxywasm.GetProperty([]string{"cluster_name"})
	if err != nil {
		log.Errorf("the route's cluster is unknown, so token %s could not be probed: %v", c.tokenLabel(token), err)
		return
	}
	c.updateTokenStates(func(states tokenStates) bool {
		state := states.of(token)
		state.Failures++
		if !state.Unavailable && state.Failures >= c.failover.failureThreshold {
			state.Unavailable = true
			state.Endpoint = healthCheckEndpoint{
				Host:    ctx.GetStringContext(CtxRequestHost, ""),
				Path:    withoutQuery(ctx.GetStringContext(CtxRequestPath, "")),
				Cluster: string(cluster),
			}
			log.Infof("token %s is unavailable after %d failures", c.tokenLabel(token), state.Failures)
		}
		return true
	})
}

// resetApiTokenFailures leaves a token that is set aside to the health check: the success may have been under way already.
func (c *ProviderConfig) resetApiTokenFailures(token string) {
	if !c.isFailoverEnabled() {
		return
	}
	c.updateTokenStates(func(states tokenStates) bool {
		state, known := states[token]
		if !known || state.Unavailable {
			return false
		}
		delete(states, token)
		return true
	})
}

func (c *ProviderConfig) recordHealthCheck(token string, healthy bool) {
	c.updateTokenStates(func(states tokenStates) bool {
		state, known := states[token]
		if !known || !state.Unavailable {
			return false
		}
		if !healthy {
			state.Successes = 0
			return true
		}
		state.Successes++
		if state.Successes >= c.failover.successThreshold {
			delete(states, token)
			log.Infof("token %s is available again", c.tokenLabel(token))
		}
		return true
	})
}
