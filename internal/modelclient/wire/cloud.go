package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/anthropics/anthropic-sdk-go/bedrock"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/vertex"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// messagesPath is the path that the SDK's options for clouds rewrite.
const messagesPath = "v1/messages"

// bedrockMessages is the Messages API at Amazon Bedrock.
type bedrockMessages struct{}

// Send implements Adapter.
func (bedrockMessages) Send(ctx context.Context, c *Call, stream bool) (model.Response, error) {
	cfg, err := awsOf(ctx, c.Provider, c.Key)
	if err != nil {
		return model.Response{}, err
	}
	at := []option.RequestOption{bedrock.WithConfig(cfg), option.WithBaseURL(c.Provider.BaseURL)}
	if c.Key != "" { // also if AWS_BEARER_TOKEN_BEDROCK, which the SDK prefers, has another one
		at = append(at, option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			r.Header.Set("Authorization", "Bearer "+c.Key)
			return next(r)
		}))
	}
	return sendMessages(ctx, c, stream, messagesPath, at...)
}

// vertexMessages is the Messages API at Google's Vertex AI.
type vertexMessages struct{}

// Send implements Adapter.
func (vertexMessages) Send(ctx context.Context, c *Call, stream bool) (model.Response, error) {
	g, err := googleOf(c.Provider, c.Key)
	if err != nil {
		return model.Response{}, err
	}
	return sendMessages(ctx, c, stream, messagesPath, g.option, option.WithBaseURL(c.Provider.BaseURL))
}

// CheckCredentials checks that there are credentials for a cloud. A CONFIG_ERROR says what to set.
func CheckCredentials(ctx context.Context, p model.Provider, key string) error {
	var err error
	if p.Kind == model.KindBedrock {
		_, err = awsOf(ctx, p, key)
	}
	if p.Kind == model.KindVertex {
		_, err = googleOf(p, key)
	}
	return err
}

// The credentials of the clouds, which renew themselves. They are found at the first call, because that
// may read files and ask the host's metadata service. What was not found is looked for again.
var (
	awsConfigs sync.Map // by region, of aws.Config
	googles    sync.Map // by googleKey, of *googleCloud
)

// awsOf returns the credentials for Bedrock: a Bedrock API key, or else AWS's default ones.
func awsOf(ctx context.Context, p model.Provider, key string) (aws.Config, error) {
	if key != "" {
		return aws.Config{Region: p.Region, BearerAuthTokenProvider: bedrock.NewStaticBearerTokenProvider(key)}, nil
	}
	missing := func(err error) error {
		return fault.Wrap(err, contract.ClassConfig, contract.CodeUnauthorized,
			"model provider %s (%s): no AWS credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or AWS_BEARER_TOKEN_BEDROCK for the worker, or give its host a role", p.Name, p.Address())
	}
	found, ok := awsConfigs.Load(p.Region)
	if !ok {
		loaded, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(p.Region))
		if err != nil {
			return aws.Config{}, missing(err)
		}
		found, _ = awsConfigs.LoadOrStore(p.Region, loaded)
	}
	cfg, _ := found.(aws.Config)
	if cfg.Credentials == nil {
		awsConfigs.Delete(p.Region)
		return cfg, missing(errors.New("the default configuration has none"))
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		if ctx.Err() != nil {
			return cfg, err
		}
		awsConfigs.Delete(p.Region)
		return cfg, missing(err)
	}
	return cfg, nil
}

// googleKey tells the credentials for Vertex apart.
type googleKey struct{ region, project, key string }

// googleCloud has the credentials for Vertex, and the SDK's option that uses them.
type googleCloud struct {
	tokens oauth2.TokenSource
	option option.RequestOption
}

const googleScope = "https://www.googleapis.com/auth/cloud-platform"

// googleOf returns the credentials for Vertex: an access token, or else Google's default ones.
func googleOf(p model.Provider, key string) (*googleCloud, error) {
	at := googleKey{p.Region, p.Project, key}
	if found, ok := googles.Load(at); ok {
		g, _ := found.(*googleCloud)
		return g, g.check(p, at)
	}
	creds := &google.Credentials{TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: key})}
	if key == "" {
		var err error
		// Not the context of the call, after which the credentials are still renewed.
		if creds, err = google.FindDefaultCredentials(context.Background(), googleScope); err != nil {
			return nil, noGoogle(p, err)
		}
	}
	project := cmp.Or(p.Project, creds.ProjectID)
	if project == "" {
		return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"model provider %s: the Google Cloud project is unknown; set models.providers.%s.project or GOOGLE_CLOUD_PROJECT", p.Name, p.Name)
	}
	with, err := vertexOption(p.Region, project, creds)
	if err != nil {
		return nil, noGoogle(p, err)
	}
	g := &googleCloud{tokens: creds.TokenSource, option: with}
	if err := g.check(p, at); err != nil {
		return nil, err
	}
	googles.Store(at, g)
	return g, nil
}

// check gets a token, unless there is one that is still valid.
func (g *googleCloud) check(p model.Provider, at googleKey) error {
	if _, err := g.tokens.Token(); err != nil {
		googles.Delete(at)
		return noGoogle(p, err)
	}
	return nil
}

func noGoogle(p model.Provider, err error) error {
	return fault.Wrap(err, contract.ClassConfig, contract.CodeUnauthorized,
		"model provider %s (%s): no Google credentials were found, or they were rejected; run gcloud auth application-default login, set GOOGLE_APPLICATION_CREDENTIALS to a file with them for the worker, or give its host a service account", p.Name, p.Address())
}

// vertexOption returns the SDK's option for Vertex, which panics if it cannot create a client.
func vertexOption(region, project string, creds *google.Credentials) (with option.RequestOption, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return vertex.WithCredentials(context.Background(), region, project, creds), nil
}

// bedrockStatuses are the HTTP statuses of Bedrock's errors, which may arrive inside a stream.
var bedrockStatuses = map[string]int{
	"throttlingexception": http.StatusTooManyRequests, "validationexception": http.StatusBadRequest, "modeltimeoutexception": http.StatusRequestTimeout,
	"internalserverexception": http.StatusInternalServerError, "modelstreamerrorexception": http.StatusInternalServerError,
	"serviceunavailableexception": http.StatusServiceUnavailable,
}

// bedrockStatus returns the status of an error inside a stream; 0: unknown.
func bedrockStatus(document []byte) int {
	var doc struct {
		Error struct {
			Type string `json:"type"`
		} `json:"error"`
	}
	_ = json.Unmarshal(document, &doc) // otherwise, it has no type
	return bedrockStatuses[strings.ToLower(doc.Error.Type)]
}
