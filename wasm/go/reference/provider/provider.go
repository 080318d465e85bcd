// What every provider shares: the names of the APIs, the interfaces a provider may implement, and its configuration with
// what follows from it alone: tokens, models, paths.
package provider

import (
	"errors"
	"fmt"
	"math/rand"
	"net/http"
	"strings"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
	"github.com/higress-group/wasm-go/pkg/wrapper"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// ApiName says which API a request speaks, whatever path or body the provider uses for it.
type ApiName string

const (
	ApiNameChatCompletion ApiName = "openai/v1/chatcompletions"
	ApiNameEmbeddings     ApiName = "openai/v1/embeddings"
	ApiNameVideos         ApiName = "openai/v1/videos"
)

// Keys of what one request leaves in its context for its later phases and for its retries.
const (
	CtxKeyApiName  = "apiName"
	CtxRequestHost = "requestHost"
	CtxRequestPath = "requestPath"
	CtxRequestBody = "requestBody"

	ctxStreaming = "streaming"
)

// ErrUnsupportedApiName is returned when a provider has nothing that answers the API of a request.
var ErrUnsupportedApiName = errors.New("the provider does not support this API")

type Provider interface {
	GetProviderType() string
}

type RequestHeadersHandler interface {
	OnRequestHeaders(ctx wrapper.HttpContext, apiName ApiName) error
}

type RequestBodyHandler interface {
	OnRequestBody(ctx wrapper.HttpContext, apiName ApiName, body []byte) (types.Action, error)
}

type TransformRequestHeadersHandler interface {
	TransformRequestHeaders(ctx wrapper.HttpContext, apiName ApiName, headers http.Header)
}

type TransformRequestBodyHandler interface {
	TransformRequestBody(ctx wrapper.HttpContext, apiName ApiName, body []byte) ([]byte, error)
}

// TransformRequestBodyHeadersHandler is for providers whose headers depend on the body.
type TransformRequestBodyHeadersHandler interface {
	TransformRequestBodyHeaders(ctx wrapper.HttpContext, apiName ApiName, body []byte, headers http.Header) ([]byte, error)
}

type TransformResponseHeadersHandler interface {
	TransformResponseHeaders(ctx wrapper.HttpContext, apiName ApiName, headers http.Header)
}

type TransformResponseBodyHandler interface {
	TransformResponseBody(ctx wrapper.HttpContext, apiName ApiName, body []byte) ([]byte, error)
}

// providerInitializer is what a provider type registers: its APIs with their paths, and how to make one.
type providerInitializer struct {
	capabilities map[ApiName]string
	create       func(ProviderConfig) Provider
}

var providerInitializers = map[string]providerInitializer{
	providerTypeKling:  {klingCapabilities, func(c ProviderConfig) Provider { return &klingProvider{c} }},
	providerTypeOpenAI: {openaiCapabilities, func(c ProviderConfig) Provider { return &openaiProvider{c} }},
	providerTypeCohere: {cohereCapabilities, func(c ProviderConfig) Provider { return &cohereProvider{c} }},
}

// CreateProvider makes the provider that a configuration describes.
func CreateProvider(pc ProviderConfig) (Provider, error) {
	initializer, known := providerInitializers[pc.typ]
	if !known {
		return nil, fmt.Errorf("unknown provider type: %q", pc.typ)
	}
	if pc.capabilities == nil {
		pc.setCapabilities(initializer.capabilities)
	}
	return initializer.create(pc), nil
}

// ProviderConfig is one provider as the user configures it.
type ProviderConfig struct {
	id               string
	typ              string
	apiTokens        []string
	modelMapping     map[string]string
	providerDomain   string
	providerBasePath string
	capabilities     map[string]string // API name -> the provider's path for it
	retryOnFailure   *retryOnFailure
	failover         *failover
}

func (c *ProviderConfig) FromJson(json gjson.Result) {
	c.id = json.Get("id").String()
	if c.id == "" {
		c.id = "default"
	}
	c.typ = json.Get("type").String()
	c.apiTokens = stringsOf(json.Get("apiTokens"))
	c.modelMapping = map[string]string{}
	for model, mapped := range json.Get("modelMapping").Map() {
		c.modelMapping[model] = mapped.String()
	}
	c.providerDomain = json.Get("providerDomain").String()
	c.providerBasePath = strings.TrimSuffix(json.Get("providerBasePath").String(), "/")
	c.setCapabilities(providerInitializers[c.typ].capabilities)

	c.retryOnFailure = &retryOnFailure{}
	c.retryOnFailure.FromJson(json.Get("retryOnFailure"))
	c.failover = &failover{}
	c.failover.FromJson(json.Get("failover"))
}

// Validate says in one line what the user has to put right.
func (c *ProviderConfig) Validate() error {
	if c.typ == "" {
		return errors.New("the provider needs a type")
	}
	if _, known := providerInitializers[c.typ]; !known {
		return fmt.Errorf("unknown provider type: %q", c.typ)
	}
	if len(c.apiTokens) == 0 {
		return fmt.Errorf("provider %s: apiTokens needs at least one token", c.id)
	}
	for _, token := range c.apiTokens {
		if token == "" {
			return fmt.Errorf("provider %s: an empty token in apiTokens", c.id)
		}
	}
	if c.providerBasePath != "" && !strings.HasPrefix(c.providerBasePath, "/") {
		return fmt.Errorf("provider %s: providerBasePath must start with a slash: %q", c.id, c.providerBasePath)
	}
	if err := c.retryOnFailure.Validate(); err != nil {
		return fmt.Errorf("provider %s: %w", c.id, err)
	}
	if err := c.failover.Validate(); err != nil {
		return fmt.Errorf("provider %s: %w", c.id, err)
	}
	return nil
}

func (c *ProviderConfig) GetId() string {
	return c.id
}

func (c *ProviderConfig) GetType() string {
	return c.typ
}

func (c *ProviderConfig) setCapabilities(paths map[ApiName]string) {
	c.capabilities = map[string]string{}
	for apiName, path := range paths {
		c.capabilities[string(apiName)] = path
	}
}

// SetAvailableApiTokens fixes, for the whole life of a request, which tokens it may use.
func (c *ProviderConfig) SetAvailableApiTokens(ctx wrapper.HttpContext) {
	tokens := c.apiTokens
	if c.isFailoverEnabled() {
		tokens = c.availableApiTokens()
	}
	ctx.SetContext(c.failoverKeys().ctxAvailableApiTokens, tokens)
}

func (c *ProviderConfig) GetAvailableApiToken(ctx wrapper.HttpContext) []string {
	tokens, _ := ctx.GetContext(c.failoverKeys().ctxAvailableApiTokens).([]string)
	return tokens
}

// SetApiTokenInUse chooses the token of the first attempt.
func (c *ProviderConfig) SetApiTokenInUse(ctx wrapper.HttpContext) {
	ctx.SetContext(c.failoverKeys().ctxApiTokenInUse, GetRandomToken(c.GetAvailableApiToken(ctx)))
}

func (c *ProviderConfig) GetApiTokenInUse(ctx wrapper.HttpContext) string {
	token, _ := ctx.GetContext(c.failoverKeys().ctxApiTokenInUse).(string)
	return token
}

// GetRandomToken returns one of the tokens, or "" when there are none.
func GetRandomToken(apiTokens []string) string {
	if len(apiTokens) == 0 {
		return ""
	}
	return apiTokens[rand.Intn(len(apiTokens))]
}

// tokenLabel names a token in a log line without telling it.
func (c *ProviderConfig) tokenLabel(token string) string {
	for i, known := range c.apiTokens {
		if known == token {
			return fmt.Sprintf("#%d of %d", i+1, len(c.apiTokens))
		}
	}
	return "(not configured)"
}

// mapModel applies the exact entry, else the one with the longest matching prefix ("*" has the shortest), else nothing.
func (c *ProviderConfig) mapModel(model string) string {
	best, longest := c.modelMapping[model], -1
	if best == "" {
		for pattern, mapped := range c.modelMapping {
			prefix, isPrefix := strings.CutSuffix(pattern, "*")
			if isPrefix && strings.HasPrefix(model, prefix) && len(prefix) > longest {
				best, longest = mapped, len(prefix)
			}
		}
	}
	if best == "" {
		return model
	}
	return best
}

// setCommonHeaders does what all our providers do to request headers: path, host and credential.
func (c *ProviderConfig) setCommonHeaders(ctx wrapper.HttpContext, apiName ApiName, headers http.Header, defaultDomain string) {
	if path, mapped := c.capabilities[string(apiName)]; mapped {
		headers.Set(":path", path+queryOf(headers.Get(":path")))
	}
	domain := c.providerDomain
	if domain == "" {
		domain = defaultDomain
	}
	headers.Set(":authority", domain)
	headers.Set("Authorization", "Bearer "+c.GetApiTokenInUse(ctx))
}

// applyProviderBasePath puts the configured base before a path, once.
func (c *ProviderConfig) applyProviderBasePath(path string) string {
	if c.providerBasePath == "" || strings.HasPrefix(path, c.providerBasePath+"/") {
		return path
	}
	return c.providerBasePath + path
}

// defaultTransformRequestBody is for APIs that the provider speaks as the client does: only the model's name is mapped.
func (c *ProviderConfig) defaultTransformRequestBody(_ wrapper.HttpContext, apiName ApiName, body []byte) ([]byte, error) {
	if err := requireJsonObject(apiName, body); err != nil {
		return nil, err
	}
	model := gjson.GetBytes(body, "model")
	if !model.Exists() {
		return body, nil
	}
	return sjson.SetBytes(body, "model", c.mapModel(model.String()))
}

func requireJsonObject(apiName ApiName, body []byte) error {
	if !gjson.ValidBytes(body) || !gjson.ParseBytes(body).IsObject() {
		return fmt.Errorf("the body for %s must be a JSON object", apiName)
	}
	return nil
}

func stringsOf(json gjson.Result) []string {
	var values []string
	for _, value := range json.Array() {
		values = append(values, value.String())
	}
	return values
}
