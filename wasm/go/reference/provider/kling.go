// Kling makes videos, from a text or from an image: two paths, and its own name for the model's field.
package provider

import (
	"net/http"
	"strings"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
	"github.com/higress-group/wasm-go/pkg/wrapper"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

const (
	providerTypeKling = "kling"

	klingDomain         = "api-singapore.klingai.com"
	klingTextVideoPath  = "/v1/videos/text2video"
	klingImageVideoPath = "/v1/videos/image2video"

	klingTextTaskPrefix  = "kling-t2v-"
	klingImageTaskPrefix = "kling-i2v-"

	ctxKlingTaskPrefix = "klingTaskPrefix"
)

var klingCapabilities = map[ApiName]string{
	ApiNameVideos: klingTextVideoPath,
}

// klingImageFields make a video an image video when one of them has a value.
var klingImageFields = []string{"image", "image_url", "images", "image_urls", "image_tail"}

type klingProvider struct {
	config ProviderConfig
}

func (p *klingProvider) GetProviderType() string {
	return providerTypeKling
}

func (p *klingProvider) OnRequestHeaders(ctx wrapper.HttpContext, apiName ApiName) error {
	return p.config.handleRequestHeaders(p, ctx, apiName)
}

func (p *klingProvider) OnRequestBody(ctx wrapper.HttpContext, apiName ApiName, body []byte) (types.Action, error) {
	return p.config.handleRequestBody(p, ctx, apiName, body)
}

func (p *klingProvider) TransformRequestHeaders(ctx wrapper.HttpContext, apiName ApiName, headers http.Header) {
	p.config.setCommonHeaders(ctx, apiName, headers, klingDomain)
}

// TransformRequestBodyHeaders sets the path once more, because only the body tells text from image.
func (p *klingProvider) TransformRequestBodyHeaders(ctx wrapper.HttpContext, apiName ApiName, body []byte, headers http.Header) ([]byte, error) {
	if apiName != ApiNameVideos {
		return p.config.defaultTransformRequestBody(ctx, apiName, body)
	}
	if err := requireJsonObject(apiName, body); err != nil {
		return nil, err
	}
	path, taskPrefix := klingTextVideoPath, klingTextTaskPrefix
	if hasKlingImage(body) {
		path, taskPrefix = klingImageVideoPath, klingImageTaskPrefix
	}
	ctx.SetContext(ctxKlingTaskPrefix, taskPrefix)
	originalPath := ctx.GetStringContext(CtxRequestPath, headers.Get(":path"))
	headers.Set(":path", path+queryOf(originalPath))
	return p.renameModel(body)
}

func (p *klingProvider) renameModel(body []byte) ([]byte, error) {
	model := gjson.GetBytes(body, "model")
	if !model.Exists() {
		return body, nil
	}
	named, err := sjson.SetBytes(body, "model_name", p.config.mapModel(model.String()))
	if err != nil {
		return nil, err
	}
	return sjson.DeleteBytes(named, "model")
}

// TransformResponseHeaders drops the length, since the task's id becomes longer.
func (p *klingProvider) TransformResponseHeaders(_ wrapper.HttpContext, _ ApiName, headers http.Header) {
	headers.Del("Content-Length")
}

// TransformResponseBody marks the task's id with the kind of its video, which Kling wants to know again when it is asked
// for the task.
func (p *klingProvider) TransformResponseBody(ctx wrapper.HttpContext, apiName ApiName, body []byte) ([]byte, error) {
	prefix := ctx.GetStringContext(ctxKlingTaskPrefix, "")
	if apiName != ApiNameVideos || prefix == "" {
		return body, nil
	}
	var err error
	for _, field := range []string{"data.task_id", "task_id"} {
		id := gjson.GetBytes(body, field).String()
		if id == "" || strings.HasPrefix(id, klingTextTaskPrefix) || strings.HasPrefix(id, klingImageTaskPrefix) {
			continue
		}
		if body, err = sjson.SetBytes(body, field, prefix+id); err != nil {
			return nil, err
		}
	}
	return body, nil
}

func hasKlingImage(body []byte) bool {
	for _, field := range klingImageFields {
		value := gjson.GetBytes(body, field)
		if value.IsArray() && len(value.Array()) > 0 || !value.IsArray() && value.String() != "" {
			return true
		}
	}
	return false
}
