// What all VMs know together about the tokens of a provider, in the host's shared data: one entry with the state of every
// token that has failed, and one that says which VM probes. A token without a state is available.
package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"time"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
	"github.com/higress-group/wasm-go/pkg/log"
)

// maxUpdateTries bounds the races with other VMs that one update may lose.
const maxUpdateTries = 10

// tokenState is what is known of a token that failed. One with a place is set aside.
type tokenState struct {
	Failures, Successes int64     // in a row
	Place               *failedAt `json:",omitempty"`
}

// failedAt is where the request went whose failure set its token aside.
type failedAt struct{ Cluster, Host, Path string }

type tokenStates map[string]*tokenState

func (s tokenStates) of(token string) *tokenState {
	if s[token] == nil {
		s[token] = &tokenState{}
	}
	return s[token]
}

// healthyTokens returns all tokens when all have failed: a request with a bad token can still be retried, one without a
// token cannot be sent.
func (c *ProviderConfig) healthyTokens() []string {
	aside := c.setAside()
	healthy := slices.DeleteFunc(slices.Clone(c.apiTokens), func(token string) bool {
		_, is := aside[token]
		return is
	})
	if len(healthy) == 0 {
		log.Warn("all tokens are set aside, so all are used")
		return c.apiTokens
	}
	return healthy
}

// setAside returns the tokens that are not to be used, each with the place to probe it.
func (c *ProviderConfig) setAside() map[string]failedAt {
	states, _, err := c.loadTokenStates()
	if err != nil {
		log.Warnf("all tokens are taken for healthy: %v", err)
	}
	aside := map[string]failedAt{}
	for _, token := range c.apiTokens { // a state may outlive the configuration its token was in
		if state := states[token]; state != nil && state.Place != nil {
			aside[token] = *state.Place
		}
	}
	return aside
}

func (c *ProviderConfig) tokenStatesKey() string {
	return fmt.Sprintf("%s-%s-apiTokenStates", c.kind, c.id)
}

func (c *ProviderConfig) loadTokenStates() (tokenStates, uint32, error) {
	states := tokenStates{}
	data, cas, err := proxywasm.GetSharedData(c.tokenStatesKey())
	if errors.Is(err, types.ErrorStatusNotFound) || (err == nil && len(data) == 0) {
		return states, cas, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("cannot read the token states: %w", err)
	}
	if err := json.Unmarshal(data, &states); err != nil {
		return nil, 0, fmt.Errorf("cannot read the token states: %w", err)
	}
	return states, cas, nil
}

// updateTokenStates applies a change to the newest states; change says whether there is something to store.
func (c *ProviderConfig) updateTokenStates(change func(tokenStates) bool) {
	var err error
	for try := 0; try < maxUpdateTries; try++ {
		states, cas, loadErr := c.loadTokenStates()
		if loadErr != nil {
			log.Errorf("token states not updated: %v", loadErr)
			return
		}
		if !change(states) {
			return
		}
		var data []byte
		if data, err = json.Marshal(states); err == nil {
			err = proxywasm.SetSharedData(c.tokenStatesKey(), data, cas)
		}
		if !errors.Is(err, types.ErrorStatusCasMismatch) {
			break
		}
	}
	if err != nil {
		log.Errorf("token states not updated: %v", err)
	}
}

type healthCheckLease struct {
	Owner string `json:"owner"`
	Until int64  `json:"until"` // Unix milliseconds
}

// newLeaseOwner names a timer rather than a VM: a VM may run several plugin configurations with the same provider.
func newLeaseOwner() string {
	return fmt.Sprintf("%016x", rand.Uint64())
}

// holdHealthCheckLease takes the lease when it is free, or renews it. The host lets two VMs create an entry at the same
// time; then both probe once, and the next renewal decides.
func (c *ProviderConfig) holdHealthCheckLease(owner string) bool {
	key := fmt.Sprintf("%s-%s-healthCheckLease", c.kind, c.id)
	now := time.Now().UnixMilli()
	held, cas, err := proxywasm.GetSharedData(key)
	if !errors.Is(err, types.ErrorStatusNotFound) && err != nil {
		log.Errorf("cannot read the health check lease: %v", err)
		return false
	}
	var lease healthCheckLease
	if json.Unmarshal(held, &lease) == nil && lease.Owner != owner && now < lease.Until {
		return false
	}
	// Three intervals: the holder may miss a tick or two before another takes over.
	lease = healthCheckLease{Owner: owner, Until: now + 3*c.failover.every}
	renewed, err := json.Marshal(lease)
	if err != nil {
		return false
	}
	return proxywasm.SetSharedData(key, renewed, cas) == nil
}
