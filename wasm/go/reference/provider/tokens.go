// Which of the configured tokens a request uses.
package provider

import (
	"fmt"
	"math/rand"
	"slices"

	"github.com/higress-group/wasm-go/pkg/wrapper"
)

// Keys in a request's context: the tokens that it may use, and the one of its latest attempt.
const usableTokens, usedToken = "usable tokens", "used token"

// SetAvailableApiTokens fixes, for the whole life of a request, which tokens it may use.
func (c *ProviderConfig) SetAvailableApiTokens(ctx wrapper.HttpContext) {
	if c.failover.enabled {
		ctx.SetContext(usableTokens, c.healthyTokens())
	} else {
		ctx.SetContext(usableTokens, c.apiTokens)
	}
}

// GetAvailableApiToken returns all of them.
func (c *ProviderConfig) GetAvailableApiToken(ctx wrapper.HttpContext) []string {
	usable, _ := ctx.GetContext(usableTokens).([]string)
	return usable
}

// SetApiTokenInUse chooses the token of the first attempt.
func (c *ProviderConfig) SetApiTokenInUse(ctx wrapper.HttpContext) {
	chosen, _ := draw(c.GetAvailableApiToken(ctx))
	ctx.SetContext(usedToken, chosen)
}

// GetApiTokenInUse returns the token of the latest attempt.
func (c *ProviderConfig) GetApiTokenInUse(ctx wrapper.HttpContext) string {
	used, _ := ctx.GetContext(usedToken).(string)
	return used
}

// draw picks a token at random and returns the others, too; of none it picks "".
func draw(tokens []string) (drawn string, others []string) {
	if len(tokens) == 0 {
		return "", nil
	}
	drawn = tokens[rand.Intn(len(tokens))]
	return drawn, without(tokens, drawn)
}

// without returns a list of its own: the tokens of a configuration stay as they are.
func without(tokens []string, dropped string) []string {
	return slices.DeleteFunc(slices.Clone(tokens), func(token string) bool { return token == dropped })
}

// tokenLabel names a token in a log line without telling it.
func (c *ProviderConfig) tokenLabel(token string) string {
	if place := slices.Index(c.apiTokens, token); place >= 0 {
		return fmt.Sprintf("#%d of %d", place+1, len(c.apiTokens))
	}
	return "(not configured)"
}
