// What happens to a request whose first attempt failed: it is rebuilt from what the client sent and tried again with
// another token, while the failed response waits.
package provider

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
	"github.com/higress-group/wasm-go/pkg/log"
	"github.com/higress-group/wasm-go/pkg/wrapper"
	"github.com/tidwall/gjson"
)

const ctxRetryCount = "retryCount"

type retryOnFailure struct {
	enabled       bool
	maxRetries    int64
	retryTimeout  int64    // milliseconds
	retryOnStatus []string // regular expressions for a whole status
}

func (r *retryOnFailure) FromJson(json gjson.Result) {
	r.enabled = json.Get("enabled").Bool()
	r.maxRetries = intOr(json.Get("maxRetries"), 1)
	r.retryTimeout = intOr(json.Get("retryTimeout"), 30_000)
	r.retryOnStatus = statusesOr(json.Get("retryOnStatus"), "4.*", "5.*")
}

func (r *retryOnFailure) Validate() error {
	if r == nil {
		return nil
	}
	if r.maxRetries < 1 {
		return errors.New("retryOnFailure.maxRetries must be a number of at least 1")
	}
	if r.retryTimeout < 1 {
		return errors.New("retryOnFailure.retryTimeout must be a number of milliseconds, at least 1")
	}
	return validateStatuses("retryOnFailure.retryOnStatus", r.retryOnStatus)
}

func (c *ProviderConfig) IsRetryOnFailureEnabled() bool {
	return c.retryOnFailure != nil && c.retryOnFailure.enabled
}

// OnRequestFailed decides about a response that is not a success: whether its token has failed once too often, and whether
// the response has to wait for a retry.
func (c *ProviderConfig) OnRequestFailed(activeProvider Provider, ctx wrapper.HttpContext, apiTokenInUse string,
	apiTokens []string, status string) types.Action {
	c.recordApiTokenFailure(ctx, apiTokenInUse, status)
	if !c.mayRetry(ctx, status) {
		return types.ActionContinue
	}
	if err := c.retryFailedRequest(activeProvider, ctx, apiTokenInUse, apiTokens); err != nil {
		log.Warnf("no retry after status %s: %v", status, err)
		return types.ActionContinue
	}
	return types.HeaderStopAllIterationAndWatermark
}

// OnRequestSucceeded ends a token's run of failures.
func (c *ProviderConfig) OnRequestSucceeded(apiTokenInUse string) {
	c.resetApiTokenFailures(apiTokenInUse)
}

// RetryStarted says that this request has been retried, so that the answer the plugin sends is not taken for another
// response of the upstream.
func RetryStarted(ctx wrapper.HttpContext) bool {
	return retryCount(ctx) > 0
}

func (c *ProviderConfig) mayRetry(ctx wrapper.HttpContext, status string) bool {
	return c.IsRetryOnFailureEnabled() &&
		matchStatus(status, c.retryOnFailure.retryOnStatus) &&
		!ctx.GetBoolContext(ctxStreaming, false) &&
		// A request without a body is not an inference request; the POST that a retry sends would change its meaning.
		ctx.GetByteSliceContext(CtxRequestBody, nil) != nil
}

func (c *ProviderConfig) retryFailedRequest(activeProvider Provider, ctx wrapper.HttpContext, apiTokenInUse string, apiTokens []string) error {
	apiName, _ := ctx.GetContext(CtxKeyApiName).(ApiName)
	log.Infof("retry started, api: %s, failed token: %s", apiName, c.tokenLabel(apiTokenInUse))
	retryClient := wrapper.NewClusterClient(wrapper.RouteCluster{Host: ctx.GetStringContext(CtxRequestHost, "")})
	return c.sendRetryRequest(ctx, apiName, activeProvider, retryClient, apiTokenInUse, apiTokens)
}

// sendRetryRequest sends the request again, without the token that has just failed. An error means nothing was sent.
func (c *ProviderConfig) sendRetryRequest(ctx wrapper.HttpContext, apiName ApiName, activeProvider Provider,
	retryClient wrapper.HttpClient, apiTokenInUse string, apiTokens []string) error {
	apiTokens = withoutToken(apiTokens, apiTokenInUse)
	if len(apiTokens) == 0 {
		return errors.New("No more apiTokens to retry")
	}
	nextToken := GetRandomToken(apiTokens)
	ctx.SetContext(c.failoverKeys().ctxApiTokenInUse, nextToken)

	originalHeaders := [][2]string{
		{"content-type", "application/json"},
		{":authority", ctx.GetStringContext(CtxRequestHost, "")},
		{":path", ctx.GetStringContext(CtxRequestPath, "")},
	}
	originalBody := ctx.GetByteSliceContext(CtxRequestBody, nil)
	headers, body, err := c.transformRequestHeadersAndBody(ctx, activeProvider, originalHeaders, originalBody)
	if err != nil {
		return fmt.Errorf("cannot rebuild the request: %w", err)
	}

	callback := func(status int, headers http.Header, body []byte) {
		c.onRetryResponse(ctx, apiName, activeProvider, retryClient, apiTokens, status, headers, body)
	}
	err = retryClient.Post(generateUrl(headers), pairsFromHeaders(headers), body, callback, uint32(c.retryOnFailure.retryTimeout))
	if err != nil {
		return fmt.Errorf("cannot send the request: %w", err)
	}
	ctx.SetContext(ctxRetryCount, retryCount(ctx)+1)
	log.Infof("sent retry %d/%d, token: %s", retryCount(ctx), c.retryOnFailure.maxRetries, c.tokenLabel(nextToken))
	return nil
}

// onRetryResponse answers the client with a retry that succeeded. After one that failed it tries the next token, and when
// that is not to be, lets the response of the first attempt go on.
func (c *ProviderConfig) onRetryResponse(ctx wrapper.HttpContext, apiName ApiName, activeProvider Provider,
	retryClient wrapper.HttpClient, apiTokens []string, status int, headers http.Header, body []byte) {
	token := c.GetApiTokenInUse(ctx)
	if status == http.StatusOK {
		log.Infof("retry succeeded, token: %s", c.tokenLabel(token))
		c.resetApiTokenFailures(token)
		answerFromRetry(ctx, apiName, activeProvider, headers, body)
		return
	}
	log.Infof("retry still failed with status %d, token: %s", status, c.tokenLabel(token))
	c.recordApiTokenFailure(ctx, token, strconv.Itoa(status))

	if retryCount(ctx) < c.retryOnFailure.maxRetries {
		err := c.sendRetryRequest(ctx, apiName, activeProvider, retryClient, token, apiTokens)
		if err == nil {
			return
		}
		log.Warnf("no further retry: %v", err)
	}
	if err := proxywasm.ResumeHttpResponse(); err != nil {
		log.Errorf("cannot resume the first response: %v", err)
	}
}

// answerFromRetry does to a callout's response what the response phases do to an upstream's.
func answerFromRetry(ctx wrapper.HttpContext, apiName ApiName, activeProvider Provider, headers http.Header, body []byte) {
	if handler, ok := activeProvider.(TransformResponseHeadersHandler); ok {
		handler.TransformResponseHeaders(ctx, apiName, headers)
	}
	if handler, ok := activeProvider.(TransformResponseBodyHandler); ok {
		transformed, err := handler.TransformResponseBody(ctx, apiName, body)
		if err != nil {
			log.Warnf("response body left as it is: %v", err)
		} else {
			body = transformed
		}
	}
	// The host makes these itself for the response we send.
	for _, name := range []string{":status", "Content-Length", "Transfer-Encoding"} {
		headers.Del(name)
	}
	if err := proxywasm.SendHttpResponse(http.StatusOK, pairsFromHeaders(headers), body, -1); err != nil {
		log.Errorf("cannot send the response of the retry: %v", err)
	}
}

func retryCount(ctx wrapper.HttpContext) int64 {
	count, _ := ctx.GetContext(ctxRetryCount).(int64)
	return count
}

func withoutToken(apiTokens []string, dropped string) []string {
	var kept []string
	for _, token := range apiTokens {
		if token != dropped {
			kept = append(kept, token)
		}
	}
	return kept
}

func matchStatus(status string, patterns []string) bool {
	for _, pattern := range patterns {
		if matched, err := regexp.MatchString(wholeStatus(pattern), status); err == nil && matched {
			return true
		}
	}
	return false
}

func validateStatuses(field string, patterns []string) error {
	for _, pattern := range patterns {
		if _, err := regexp.Compile(wholeStatus(pattern)); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

func wholeStatus(pattern string) string {
	return "^(?:" + pattern + ")$"
}

// intOr returns 0, which no Validate accepts, for what is not a number.
func intOr(json gjson.Result, absent int64) int64 {
	if !json.Exists() {
		return absent
	}
	if json.Type != gjson.Number {
		return 0
	}
	return json.Int()
}

func statusesOr(json gjson.Result, absent ...string) []string {
	if !json.Exists() {
		return absent
	}
	return stringsOf(json)
}
