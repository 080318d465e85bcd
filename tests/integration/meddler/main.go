// A plugin that meddles with one thing of a request or an answer, named by its configuration `{"do": "..."}`, and leaves
// all else as it is. It stands on the SDK alone, since Higress' wrapper mends a content-length by itself.
package main

import (
	"encoding/json"
	"strings"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
)

func main() {}

func init() {
	proxywasm.SetVMContext(&vm{})
}

type vm struct{ types.DefaultVMContext }

func (*vm) NewPluginContext(uint32) types.PluginContext { return &plugin{} }

type plugin struct {
	types.DefaultPluginContext
	Do string `json:"do"`
}

func (p *plugin) OnPluginStart(int) types.OnPluginStartStatus {
	data, err := proxywasm.GetPluginConfiguration()
	if err == nil {
		err = json.Unmarshal(data, p)
	}
	if err != nil {
		proxywasm.LogErrorf("no configuration: %v", err)
		return types.OnPluginStartStatusFailed
	}
	return types.OnPluginStartStatusOK
}

func (p *plugin) NewHttpContext(uint32) types.HttpContext { return &exchange{do: p.Do} }

type exchange struct {
	types.DefaultHttpContext
	do string
}

func (e *exchange) OnHttpRequestHeaders(int, bool) types.Action {
	must(proxywasm.ReplaceHttpRequestHeader("authorization", "Bearer dummy-key-a"))
	switch e.do {
	case "request encoding":
		must(proxywasm.ReplaceHttpRequestHeader("content-encoding", "gzip"))
	case "no request path":
		must(proxywasm.RemoveHttpRequestHeader(":path"))
	case "answer", "answer with details", "answer 204":
		status, details := uint32(200), ""
		if e.do == "answer with details" {
			details = "the_plugins_own_words"
		}
		if e.do == "answer 204" {
			status = 204
		}
		headers := [][2]string{{"content-type", "application/json"}}
		must(proxywasm.SendHttpResponseWithDetail(status, details, headers, []byte(`{"by":"plugin"}`), -1))
		return types.ActionPause
	}
	return types.ActionContinue
}

func (e *exchange) OnHttpRequestBody(_ int, end bool) types.Action {
	switch e.do {
	case "lengthen request":
		if end {
			must(proxywasm.AppendHttpRequestBody([]byte(" more than there was")))
		}
	case "buffer request":
		if !end {
			return types.ActionPause
		}
	}
	return types.ActionContinue
}

func (e *exchange) OnHttpResponseHeaders(int, bool) types.Action {
	switch {
	case strings.HasPrefix(e.do, "encoding "):
		for _, coding := range strings.Fields(e.do)[1:] {
			must(proxywasm.AddHttpResponseHeader("content-encoding", coding))
		}
	case e.do == "second length":
		must(proxywasm.AddHttpResponseHeader("content-length", "7"))
	case e.do == "status 204":
		must(proxywasm.ReplaceHttpResponseHeader(":status", "204"))
	case e.do == "status 304":
		must(proxywasm.ReplaceHttpResponseHeader(":status", "304"))
	}
	return types.ActionContinue
}

func (e *exchange) OnHttpResponseBody(_ int, end bool) types.Action {
	switch e.do {
	case "lengthen":
		if end {
			must(proxywasm.AppendHttpResponseBody([]byte("data: usage\n\n")))
		}
	case "shorten":
		if !end {
			return types.ActionPause
		}
		must(proxywasm.ReplaceHttpResponseBody([]byte("{}")))
	case "buffer":
		if !end {
			return types.ActionPause
		}
	}
	return types.ActionContinue
}

func must(err error) {
	if err != nil {
		proxywasm.LogErrorf("cannot meddle: %v", err)
	}
}
