// What happens to a request whose first attempt failed: it is rebuilt from what the client sent and tried again with
// another token, while the failed response waits.
package provider

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
	"github.com/higress-group/wasm-go/pkg/log"
	"github.com/higress-group/wasm-go/pkg/wrapper"
	"github.com/tidwall/gjson"
)

// retries is a configuration's retryOnFailure.
type retries struct {
	enabled  bool
	most     int64
	patience int64 // milliseconds
	on       statuses
}

func defaultRetries() retries {
	return retries{most: 1, patience: 30_000, on: anyFailure()}
}

func (r *retries) read(json gjson.Result) {
	for key, value := range json.Map() {
		switch key {
		case "enabled":
			r.enabled = value.Bool()
		case "maxRetries":
			r.most = number(value)
		case "retryTimeout":
			r.patience = number(value)
		case "retryOnStatus":
			r.on = texts(value)
		}
	}
}

func (r *retries) problem() error {
	if r.most < 1 {
		return errors.New("retryOnFailure.maxRetries must be a number of at least 1")
	}
	if r.patience < 1 {
		return errors.New("retryOnFailure.retryTimeout must be a number of milliseconds, at least 1")
	}
	return r.on.problem("retryOnFailure.retryOnStatus")
}

// sentRetries is the key of how many retries of a request have been sent.
const sentRetries = "sent retries"

// WasRetried keeps the answer that the plugin itself sends from being taken for another response of the upstream.
func WasRetried(ctx wrapper.HttpContext) bool {
	return sent(ctx) > 0
}

func sent(ctx wrapper.HttpContext) int64 {
	count, _ := ctx.GetContext(sentRetries).(int64)
	return count
}

// OnRequestFailed decides about a response that is not a success: whether its token has failed once too often, and whether
// the response has to wait for a retry.
func (c *ProviderConfig) OnRequestFailed(active Provider, ctx wrapper.HttpContext, token string, usable []string, status string) types.Action {
	c.noteFailure(ctx, token, status)
	if c.retriable(ctx, status) {
		err := c.retryFailedRequest(active, ctx, token, usable)
		if err == nil {
			return types.HeaderStopAllIterationAndWatermark
		}
		log.Warnf("the response with status %s goes on: %v", status, err)
	}
	return types.ActionContinue
}

func (c *ProviderConfig) retriable(ctx wrapper.HttpContext, status string) bool {
	if !c.retries.enabled || !c.retries.on.match(status) {
		return false
	}
	// A request without a body is not an inference request; the POST that a retry sends would change its meaning.
	hasBody := ctx.GetByteSliceContext(CtxRequestBody, nil) != nil
	return hasBody && !ctx.GetBoolContext(wantsStream, false)
}

func (c *ProviderConfig) retryFailedRequest(active Provider, ctx wrapper.HttpContext, failed string, usable []string) error {
	apiName, _ := ctx.GetContext(CtxKeyApiName).(ApiName)
	host := ctx.GetStringContext(CtxRequestHost, "")
	request := &failedRequest{
		config:  c,
		ctx:     ctx,
		active:  active,
		route:   wrapper.NewClusterClient(wrapper.RouteCluster{Host: host}),
		untried: without(usable, failed),
	}
	return request.sendRetryRequest(apiName)
}

// failedRequest is a request on its way through the tokens that it has not tried.
type failedRequest struct {
	config  *ProviderConfig
	ctx     wrapper.HttpContext
	active  Provider
	route   wrapper.HttpClient
	untried []string
}

// sendRetryRequest sends the request again, with a token that it has not tried. An error means nothing was sent.
func (r *failedRequest) sendRetryRequest(apiName ApiName) error {
	if len(r.untried) == 0 {
		return errors.New("every usable token was tried")
	}
	token, others := draw(r.untried)
	r.untried = others
	r.ctx.SetContext(usedToken, token)

	received := receivedHeaders(r.ctx.GetStringContext(CtxRequestHost, ""), r.ctx.GetStringContext(CtxRequestPath, ""))
	headers, body, err := r.config.transformRequestHeadersAndBody(
		r.ctx, r.active, received, r.ctx.GetByteSliceContext(CtxRequestBody, nil))
	if err != nil {
		return fmt.Errorf("the request cannot be rebuilt: %w", err)
	}

	answered := func(status int, headers http.Header, body []byte) {
		r.answered(apiName, status, headers, body)
	}
	patience := uint32(r.config.retries.patience)
	if err := r.route.Post(generateUrl(headers), pairsFromHeaders(headers), body, answered, patience); err != nil {
		return fmt.Errorf("the request cannot be sent: %w", err)
	}
	r.ctx.SetContext(sentRetries, sent(r.ctx)+1)
	log.Infof("%s: retry %d of at most %d is out with token %s",
		apiName, sent(r.ctx), r.config.retries.most, r.config.tokenLabel(token))
	return nil
}

// answered gives the client a retry that succeeded. After one that failed it tries the next token, and when that is not to
// be, lets the response of the first attempt go on.
func (r *failedRequest) answered(apiName ApiName, status int, headers http.Header, body []byte) {
	token := r.config.GetApiTokenInUse(r.ctx)
	log.Infof("%s: the retry with token %s got status %d", apiName, r.config.tokenLabel(token), status)
	if status == http.StatusOK {
		r.config.NoteSuccess(token)
		r.answerClient(apiName, headers, body)
		return
	}
	r.config.noteFailure(r.ctx, token, strconv.Itoa(status))

	failed := errors.New("as many retries were sent as are allowed")
	if sent(r.ctx) < r.config.retries.most {
		failed = r.sendRetryRequest(apiName)
	}
	if failed != nil {
		log.Warnf("the first response goes on: %v", failed)
		if err := proxywasm.ResumeHttpResponse(); err != nil {
			log.Errorf("cannot resume the first response: %v", err)
		}
	}
}

// answerClient does to a callout's response what the response phases do to an upstream's.
func (r *failedRequest) answerClient(apiName ApiName, headers http.Header, body []byte) {
	if translated, err := TranslateAnswer(r.ctx, r.active, apiName, body); err != nil {
		log.Warnf("the retry's body is left as it is: %v", err)
	} else {
		body = translated
	}
	for _, made := range []string{":status", "Content-Length", "Transfer-Encoding"} {
		headers.Del(made) // by the host, for the response we send
	}
	if err := proxywasm.SendHttpResponse(http.StatusOK, pairsFromHeaders(headers), body, -1); err != nil {
		log.Errorf("cannot send the retry's answer: %v", err)
	}
}

// statuses are regular expressions, of which one has to match a status as a whole.
type statuses []string

func anyFailure() statuses {
	return statuses{"4.*", "5.*"}
}

func (s statuses) match(status string) bool {
	return slices.ContainsFunc(s, func(pattern string) bool {
		whole, err := wholly(pattern)
		return err == nil && whole.MatchString(status)
	})
}

func (s statuses) problem(field string) error {
	for _, pattern := range s {
		if _, err := wholly(pattern); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

func wholly(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile("^(?:" + pattern + ")$")
}
