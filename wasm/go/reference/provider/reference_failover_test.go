// Tests of what the VMs know together about tokens, against the SDK's host for its shared data. The timer and its probe are
// tested in the main package.
package provider

import (
	"testing"
	"time"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/proxytest"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
	"github.com/stretchr/testify/require"
)

func refHost(t *testing.T) {
	t.Helper()
	host, reset := proxytest.NewHostEmulator(proxytest.NewEmulatorOption().WithVMContext(&types.DefaultVMContext{}))
	t.Cleanup(reset)
	require.NoError(t, host.SetProperty([]string{"cluster_name"}, []byte("the-cluster")))
}

func refFailover(t *testing.T, more string) *ProviderConfig {
	t.Helper()
	return refConfig(t, `{"id":"f","type":"openai","apiTokens":["a","b"],"failover":{"enabled":true,"healthCheckModel":"m",
		"failureThreshold":2,"failoverOnStatus":["503"]`+more+`}}`)
}

func TestReferenceTokenIsSetAside(t *testing.T) {
	refHost(t)
	config := refFailover(t, "")
	ctx := refFailedRequest(ApiNameVideos, "/v1/videos?x=y", `{}`)
	require.Equal(t, []string{"a", "b"}, config.availableApiTokens())

	config.recordApiTokenFailure(ctx, "a", "503")
	config.recordApiTokenFailure(ctx, "a", "500")
	require.Equal(t, []string{"a", "b"}, config.availableApiTokens(), "500 does not count")
	config.resetApiTokenFailures("a")
	config.recordApiTokenFailure(ctx, "a", "503")
	require.Equal(t, []string{"a", "b"}, config.availableApiTokens(), "only failures in a row count")

	config.recordApiTokenFailure(ctx, "a", "503")
	require.Equal(t, []string{"b"}, config.availableApiTokens())
	config.SetAvailableApiTokens(ctx)
	require.Equal(t, []string{"b"}, config.GetAvailableApiToken(ctx))
	require.Equal(t, map[string]healthCheckEndpoint{
		"a": {Host: "client.test", Path: "/v1/videos", Cluster: "the-cluster"},
	}, config.unavailableApiTokens())

	config.resetApiTokenFailures("a")
	require.Equal(t, []string{"b"}, config.availableApiTokens(), "a late success does not bring it back")

	config.recordApiTokenFailure(ctx, "b", "503")
	config.recordApiTokenFailure(ctx, "b", "503")
	require.Equal(t, []string{"a", "b"}, config.availableApiTokens(), "with none left, all are used")
	require.Len(t, config.unavailableApiTokens(), 2)
}

func TestReferenceTokenComesBack(t *testing.T) {
	refHost(t)
	config := refFailover(t, `,"successThreshold":2`)
	ctx := refFailedRequest(ApiNameVideos, "/v1/videos", `{}`)
	config.recordApiTokenFailure(ctx, "a", "503")
	config.recordApiTokenFailure(ctx, "a", "503")

	for _, healthy := range []bool{true, false, true} {
		config.recordHealthCheck("a", healthy)
		require.Equal(t, []string{"b"}, config.availableApiTokens(), "not two successes in a row yet")
	}
	config.recordHealthCheck("a", true)
	require.Equal(t, []string{"a", "b"}, config.availableApiTokens())
	require.Empty(t, config.unavailableApiTokens())
}

func TestReferenceStatesOfOtherProviders(t *testing.T) {
	refHost(t)
	config, other := refFailover(t, ""), refFailover(t, "")
	other.id = "other"
	ctx := refFailedRequest(ApiNameVideos, "/v1/videos", `{}`)
	config.recordApiTokenFailure(ctx, "a", "503")
	config.recordApiTokenFailure(ctx, "a", "503")
	require.Equal(t, []string{"a", "b"}, other.availableApiTokens())
}

func TestReferenceLease(t *testing.T) {
	refHost(t)
	config := refFailover(t, `,"healthCheckInterval":60000`)
	require.True(t, config.holdHealthCheckLease("one"))
	require.False(t, config.holdHealthCheckLease("two"))
	require.True(t, config.holdHealthCheckLease("one"), "renewed")

	config.failover.healthCheckInterval = 1
	require.True(t, config.holdHealthCheckLease("one"))
	time.Sleep(5 * time.Millisecond)
	require.True(t, config.holdHealthCheckLease("two"), "taken over after it has run out")
}
