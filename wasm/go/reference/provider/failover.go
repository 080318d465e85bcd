// Failover: a token that keeps failing is set aside, and a timer asks the provider when it may come back. The rebuilding of
// a request, which the timer shares with retries, is here too.
package provider

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/wasm-go/pkg/log"
	"github.com/higress-group/wasm-go/pkg/wrapper"
	"github.com/tidwall/gjson"
)

type failover struct {
	enabled    bool
	setAsideAt int64 // failures in a row (failureThreshold)
	backAt     int64 // healthy probes in a row (successThreshold)
	every      int64 // milliseconds (healthCheckInterval)
	patience   int64 // milliseconds (healthCheckTimeout)
	model      string
	on         statuses
}

func defaultFailover() failover {
	return failover{setAsideAt: 3, backAt: 1, every: 5_000, patience: 5_000, on: anyFailure()}
}

func (f *failover) read(written gjson.Result) {
	numbers := map[string]*int64{
		"healthCheckInterval": &f.every, "healthCheckTimeout": &f.patience,
		"failureThreshold": &f.setAsideAt, "successThreshold": &f.backAt,
	}
	for key, value := range written.Map() {
		switch {
		case numbers[key] != nil:
			*numbers[key] = number(value)
		case key == "enabled":
			f.enabled = value.Bool()
		case key == "healthCheckModel":
			f.model = value.String()
		case key == "failoverOnStatus":
			f.on = texts(value)
		}
	}
}

func (f *failover) problem() error {
	if min(f.setAsideAt, f.backAt, f.every, f.patience) < 1 {
		return errors.New("failover: thresholds, interval and timeout must be numbers of at least 1")
	}
	if f.enabled && f.model == "" {
		return errors.New("failover.healthCheckModel is needed when failover is enabled")
	}
	return f.on.problem("failover.failoverOnStatus")
}

// SetApiTokensFailover starts the timer that probes the tokens set aside. Every VM has such a timer; the one that holds the
// lease probes.
func (c *ProviderConfig) SetApiTokensFailover(active Provider) error {
	if !c.failover.enabled {
		return nil
	}
	probe, err := json.Marshal(map[string]any{
		"model":    c.failover.model,
		"messages": []map[string]string{{"role": "user", "content": "Are you there?"}},
	})
	if err != nil {
		return err
	}
	self := newLeaseOwner()
	wrapper.RegisterTickFunc(c.failover.every, func() {
		if !c.holdHealthCheckLease(self) {
			return
		}
		for token, place := range c.setAside() {
			ctx := probeContext(token, place)
			headers, body, err := c.transformRequestHeadersAndBody(ctx, active, receivedHeaders(place.Host, place.Path), probe)
			if err == nil {
				err = c.sendProbe(token, place.Cluster, headers, body)
			}
			if err != nil {
				log.Errorf("token %s was not probed: %v", c.tokenLabel(token), err)
			}
		}
	})
	return nil
}

// transformRequestHeadersAndBody turns a client's request into the provider's, outside the phases of a request.
//
// Higress #4396: it takes every request for Chat Completions, so the retry of any other API goes out with the wrong path and
// payload. This tree carries the defect deliberately, to have something to prove a fix on; sendRetryRequest knows the API and
// cannot say it here. For the generated health check, which is a Chat Completions request, the constant is right.
//
// As in ai-proxy, the base path goes before the path once, and a transform that sets the path later loses it.
func (c *ProviderConfig) transformRequestHeadersAndBody(
	ctx wrapper.HttpContext, active Provider, received [][2]string, payload []byte,
) (rebuilt http.Header, filled []byte, err error) {
	rebuilt = headersFromPairs(received)
	if provider, does := active.(withHeaders); does {
		provider.TransformRequestHeaders(ctx, ApiNameChatCompletion, rebuilt)
	}
	c.rebase(rebuilt)

	switch provider := active.(type) {
	case withBody:
		filled, err = provider.TransformRequestBody(ctx, ApiNameChatCompletion, payload)
	case withBodyAndHeaders:
		filled, err = provider.TransformRequestBodyHeaders(ctx, ApiNameChatCompletion, payload, rebuilt)
	default:
		filled, err = c.defaultTransformRequestBody(ctx, ApiNameChatCompletion, payload)
	}
	return rebuilt, filled, err
}

// probeContext is that of a request which no client sent. It names no API: a health check chooses its own.
func probeContext(token string, place failedAt) wrapper.HttpContext {
	// Not NewCommonVmCtx: that would replace the logger of the whole VM.
	plugin := wrapper.NewCommonVmCtxWithOptions[struct{}]("ai-proxy").NewPluginContext(0)
	ctx := plugin.NewHttpContext(0).(wrapper.HttpContext)
	for key, value := range map[string]string{usedToken: token, CtxRequestPath: place.Path, CtxRequestHost: place.Host} {
		ctx.SetContext(key, value)
	}
	return ctx
}

func (c *ProviderConfig) sendProbe(token, cluster string, headers http.Header, body []byte) error {
	to := wrapper.NewClusterClient(wrapper.TargetCluster{Cluster: cluster, Host: headers.Get(":authority")})
	answered := func(status int, _ http.Header, _ []byte) {
		log.Infof("token %s was probed: status %d", c.tokenLabel(token), status)
		c.noteProbe(token, status == http.StatusOK)
	}
	return to.Post(generateUrl(headers), pairsFromHeaders(headers), body, answered, uint32(c.failover.patience))
}

// noteFailure counts a failure, and sets the token aside when there are too many of them, with the place of the last one.
func (c *ProviderConfig) noteFailure(ctx wrapper.HttpContext, token, status string) {
	if !c.failover.enabled || !c.failover.on.match(status) {
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
		if state.Place == nil && state.Failures >= c.failover.setAsideAt {
			state.Place = &failedAt{
				Cluster: string(cluster),
				Host:    ctx.GetStringContext(CtxRequestHost, ""),
				Path:    withoutQuery(ctx.GetStringContext(CtxRequestPath, "")),
			}
			log.Infof("token %s is set aside after %d failures", c.tokenLabel(token), state.Failures)
		}
		return true
	})
}

// NoteSuccess ends a token's run of failures. It leaves a token that is set aside to the probes: the success may have been
// under way already.
func (c *ProviderConfig) NoteSuccess(token string) {
	if !c.failover.enabled {
		return
	}
	c.updateTokenStates(func(states tokenStates) bool {
		state, failing := states[token]
		if !failing || state.Place != nil {
			return false
		}
		delete(states, token)
		return true
	})
}

// noteProbe brings a token back after enough healthy probes in a row.
func (c *ProviderConfig) noteProbe(token string, healthy bool) {
	c.updateTokenStates(func(states tokenStates) bool {
		state, failing := states[token]
		switch {
		case !failing || state.Place == nil:
			return false
		case !healthy:
			state.Successes = 0
		case state.Successes+1 < c.failover.backAt:
			state.Successes++
		default:
			delete(states, token)
			log.Infof("token %s is back in use", c.tokenLabel(token))
		}
		return true
	})
}
