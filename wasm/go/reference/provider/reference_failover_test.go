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
	require.Equal(t, []string{"a", "b"}, config.healthyTokens())

	config.noteFailure(ctx, "a", "503")
	config.noteFailure(ctx, "a", "500")
	require.Equal(t, []string{"a", "b"}, config.healthyTokens(), "500 does not count")
	config.NoteSuccess("a")
	config.noteFailure(ctx, "a", "503")
	require.Equal(t, []string{"a", "b"}, config.healthyTokens(), "only failures in a row count")

	config.noteFailure(ctx, "a", "503")
	require.Equal(t, []string{"b"}, config.healthyTokens())
	config.SetAvailableApiTokens(ctx)
	require.Equal(t, []string{"b"}, config.GetAvailableApiToken(ctx))
	require.Equal(t, map[string]failedAt{
		"a": {Host: "client.test", Path: "/v1/videos", Cluster: "the-cluster"},
	}, config.setAside())

	config.NoteSuccess("a")
	require.Equal(t, []string{"b"}, config.healthyTokens(), "a late success does not bring it back")

	config.noteFailure(ctx, "b", "503")
	config.noteFailure(ctx, "b", "503")
	require.Equal(t, []string{"a", "b"}, config.healthyTokens(), "with none left, all are used")
	require.Len(t, config.setAside(), 2)
}

func TestReferenceTokenComesBack(t *testing.T) {
	refHost(t)
	config := refFailover(t, `,"successThreshold":2`)
	ctx := refFailedRequest(ApiNameVideos, "/v1/videos", `{}`)
	config.noteFailure(ctx, "a", "503")
	config.noteFailure(ctx, "a", "503")

	for _, healthy := range []bool{true, false, true} {
		config.noteProbe("a", healthy)
		require.Equal(t, []string{"b"}, config.healthyTokens(), "not two successes in a row yet")
	}
	config.noteProbe("a", true)
	require.Equal(t, []string{"a", "b"}, config.healthyTokens())
	require.Empty(t, config.setAside())
}

func TestReferenceStatesOfOtherProviders(t *testing.T) {
	refHost(t)
	config, other := refFailover(t, ""), refFailover(t, "")
	other.id = "other"
	ctx := refFailedRequest(ApiNameVideos, "/v1/videos", `{}`)
	config.noteFailure(ctx, "a", "503")
	config.noteFailure(ctx, "a", "503")
	require.Equal(t, []string{"a", "b"}, other.healthyTokens())
}

func TestReferenceLease(t *testing.T) {
	refHost(t)
	config := refFailover(t, `,"healthCheckInterval":60000`)
	require.True(t, config.holdHealthCheckLease("one"))
	require.False(t, config.holdHealthCheckLease("two"))
	require.True(t, config.holdHealthCheckLease("one"), "renewed")

	config.failover.every = 1
	require.True(t, config.holdHealthCheckLease("one"))
	time.Sleep(5 * time.Millisecond)
	require.True(t, config.holdHealthCheckLease("two"), "taken over after it has run out")
}
