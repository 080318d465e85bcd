// Kling makes videos, from a text or from an image: two paths, and its own name for the model's field.
package provider

import (
	"net/http"
	"strings"

	"github.com/higress-group/wasm-go/pkg/wrapper"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// klingVideo is a kind of video: its path, and what marks its tasks for the client.
type klingVideo struct{ path, mark string }

var (
	klingOfText  = klingVideo{"/v1/videos/text2video", "kling-t2v-"}
	klingOfImage = klingVideo{"/v1/videos/image2video", "kling-i2v-"}
)

// klingKind is the key of a request's kind of video in its context.
const klingKind = "kling's kind of video"

var klingDialect = dialect{
	domain: "api-singapore.klingai.com",
	paths:  map[ApiName]string{ApiNameVideos: klingOfText.path},
	build:  func(p common) Provider { return kling{p} },
}

type kling struct{ common }

// TransformRequestBodyHeaders sets the path once more, because only the body tells text from image.
func (p kling) TransformRequestBodyHeaders(ctx wrapper.HttpContext, apiName ApiName, body []byte, headers http.Header) ([]byte, error) {
	switch err := requireJsonObject(apiName, body); {
	case err != nil:
		return nil, err
	case apiName != ApiNameVideos:
		return p.config.defaultTransformRequestBody(ctx, apiName, body)
	}
	kind := klingKindOf(body)
	ctx.SetContext(klingKind, kind)
	headers.Set(":path", kind.path+queryOf(ctx.GetStringContext(CtxRequestPath, headers.Get(":path"))))

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

// klingKindOf finds a video of an image by any of the fields that may hold one.
func klingKindOf(body []byte) klingVideo {
	for _, image := range gjson.GetManyBytes(body, "image", "image_tail", "image_url", "images", "image_urls") {
		if image.IsArray() && image.Get("#").Int() > 0 || !image.IsArray() && image.String() != "" {
			return klingOfImage
		}
	}
	return klingOfText
}

// translateAnswer marks the task's id with the kind of its video, which Kling wants to know again when it is asked for the
// task.
func (p kling) translateAnswer(ctx wrapper.HttpContext, _ ApiName, answer []byte) ([]byte, error) {
	kind, isVideo := ctx.GetContext(klingKind).(klingVideo)
	if !isVideo {
		return answer, nil
	}
	for _, field := range []string{"task_id", "data.task_id"} {
		id := gjson.GetBytes(answer, field).String()
		if id == "" || strings.HasPrefix(id, klingOfText.mark) || strings.HasPrefix(id, klingOfImage.mark) {
			continue
		}
		marked, err := sjson.SetBytes(answer, field, kind.mark+id)
		if err != nil {
			return nil, err
		}
		answer = marked
	}
	return answer, nil
}
