package modelclient

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

const anthropicAnswer = `{"type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`

// withoutKey returns a client whose provider has no key, so that a cloud's default credentials are used.
func withoutKey(t *testing.T, p model.Provider) *Client {
	t.Helper()
	return newClient(t, p, Options{Getenv: func(string) string { return "" }})
}

func TestBedrockIsAskedAtTheAddressOfItsModel(t *testing.T) {
	t.Parallel()
	var path, authorization string
	var body map[string]any
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		path, authorization = r.URL.EscapedPath(), r.Header.Get("Authorization")
		_ = json.NewDecoder(r.Body).Decode(&body)
		answer(http.StatusOK, anthropicAnswer)(w, r)
	})
	p := bedrockWire
	p.BaseURL, p.APIKeyEnv = ownBase(p.Kind, base), "KEY"
	c := newClient(t, p, Options{Getenv: func(string) string { return "a-bedrock-key" }})
	req := question()
	req.Choice.Model = "arn:aws:bedrock:eu-central-1:1:inference-profile/eu.anthropic.claude-haiku-4-5-20251001-v1:0"
	r, err := c.Complete(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, "ok", r.Text)
	require.Equal(t, "/model/arn%3Aaws%3Abedrock%3Aeu-central-1%3A1%3Ainference-profile%2Feu.anthropic.claude-haiku-4-5-20251001-v1%3A0/invoke-with-response-stream", path)
	require.Equal(t, "Bearer a-bedrock-key", authorization)
	require.Equal(t, "bedrock-2023-05-31", body["anthropic_version"])
	require.NotContains(t, body, "model")
	require.NotContains(t, body, "stream")
}

func TestBedrockSignsWithAWSCredentialsAndSaysIfThereAreNone(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_BEARER_TOKEN_BEDROCK": "",
		"AWS_CONFIG_FILE": "/missing", "AWS_SHARED_CREDENTIALS_FILE": "/missing", "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "",
		"AWS_WEB_IDENTITY_TOKEN_FILE": "",
	} {
		t.Setenv(name, value)
	}
	base, _ := scenario(t, "rules:\n  - reply: {text: signed}\n")
	p := model.Provider{Kind: model.KindBedrock, Region: "eu-north-1", BaseURL: ownBase(model.KindBedrock, base)}
	_, err := withoutKey(t, p).Complete(t.Context(), question())
	f := requireFault(t, err, contract.ClassConfig, contract.CodeUnauthorized)
	require.Contains(t, f.Message, "no AWS credentials were found; set AWS_ACCESS_KEY_ID")
	p.Name = "p"
	_ = requireFault(t, probe(t.Context(), http.DefaultClient, p, os.Getenv), contract.ClassConfig, contract.CodeUnauthorized)

	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "a-secret-access-key")
	r, err := withoutKey(t, p).Complete(t.Context(), question()) // the scripted model looks at the signature
	require.NoError(t, err, "without a restart")
	require.Equal(t, "signed", r.Text)
	client, closeIdle := newHTTPClient(nil)
	t.Cleanup(closeIdle)
	require.NoError(t, probe(t.Context(), client, p, os.Getenv))
}

// googleAccount writes the credentials of a service account, whose tokens a server of the test issues.
func googleAccount(t *testing.T, status int) (file string) {
	t.Helper()
	tokens := httptest.NewServer(answer(status, `{"access_token":"issued","token_type":"Bearer","expires_in":3600,"error":"invalid_grant"}`))
	t.Cleanup(tokens.Close)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	doc, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "a@b.iam.gserviceaccount.com", "private_key": string(block), "token_uri": tokens.URL, "project_id": "of-the-account",
	})
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "credentials.json")
	require.NoError(t, os.WriteFile(file, doc, 0o600))
	return file
}

func TestVertexUsesGooglesDefaultCredentialsAndSaysIfThereAreNone(t *testing.T) {
	var path, authorization string
	var body map[string]any
	base := ownBase(model.KindVertex, serve(t, func(w http.ResponseWriter, r *http.Request) {
		path, authorization = r.URL.Path, r.Header.Get("Authorization")
		_ = json.NewDecoder(r.Body).Decode(&body)
		answer(http.StatusOK, anthropicAnswer)(w, r)
	}))
	p := model.Provider{Kind: model.KindVertex, Region: "us-east5", BaseURL: base}
	for _, file := range []string{filepath.Join(t.TempDir(), "missing.json"), googleAccount(t, http.StatusBadRequest)} {
		t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
		_, err := withoutKey(t, p).Complete(t.Context(), question())
		f := requireFault(t, err, contract.ClassConfig, contract.CodeUnauthorized)
		require.Contains(t, f.Message, "set GOOGLE_APPLICATION_CREDENTIALS to a file with them")
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", googleAccount(t, http.StatusOK))
	c := withoutKey(t, p)
	for range 2 {
		req := question()
		req.Choice.Model = "claude-haiku-4-5@20251001"
		_, err := c.Complete(t.Context(), req)
		require.NoError(t, err, "without a restart")
		require.Equal(t, "/v1/projects/of-the-account/locations/us-east5/publishers/anthropic/models/claude-haiku-4-5@20251001:streamRawPredict", path)
		require.Equal(t, "Bearer issued", authorization)
		require.Equal(t, "vertex-2023-10-16", body["anthropic_version"])
		require.NotContains(t, body, "model")
	}
}

func TestACloudWithoutItsRegionOrProjectSaysWhatToSet(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		p    model.Provider
		says string
	}{
		"bedrock":           {model.Provider{Kind: model.KindBedrock}, "set models.providers.p.region, such as us-east-1, or AWS_REGION"},
		"vertex":            {model.Provider{Kind: model.KindVertex}, "set models.providers.p.region, such as global or us-east5, or GOOGLE_CLOUD_LOCATION"},
		"a hostile region":  {model.Provider{Kind: model.KindBedrock, Region: "x.evil.example/"}, "is not the name of a region"},
		"a hostile project": {model.Provider{Kind: model.KindVertex, Region: "global", Project: "../x"}, "is not the id of a project"},
		"a path":            {model.Provider{Kind: model.KindVertex, Region: "global", BaseURL: "http://127.0.0.1:1/v1"}, "must have no path"},
		"another kind":      {model.Provider{Kind: model.KindOpenAI, Region: "us-east-1"}, "kind openai has no region"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.p.Name = "p"
			_, err := New([]model.Provider{tc.p}, nil, Options{})
			require.Contains(t, requireFault(t, err, contract.ClassConfig, contract.CodeInvalidConfig).Message, tc.says)
		})
	}
	p := vertexWire
	p.Project, p.APIKeyEnv, p.BaseURL = "", "KEY", "http://127.0.0.1:1"
	_, err := newClient(t, p, Options{Getenv: func(string) string { return "an-access-token" }}).Complete(t.Context(), question())
	require.Contains(t, requireFault(t, err, contract.ClassConfig, contract.CodeInvalidConfig).Message, "set models.providers.p.project or GOOGLE_CLOUD_PROJECT")
}

// frame is one frame of a stream of Bedrock.
func frame(t *testing.T, kind, name, payload string) []byte {
	t.Helper()
	m := eventstream.Message{Payload: []byte(payload)}
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	m.Headers.Set(map[string]string{"event": ":event-type", "exception": ":exception-type"}[kind], eventstream.StringValue(name))
	var out bytes.Buffer
	require.NoError(t, eventstream.NewEncoder().Encode(&out, m))
	return out.Bytes()
}

func TestAnExceptionInsideAStreamOfBedrockIsTyped(t *testing.T) {
	t.Parallel()
	start := `{"bytes":"` + base64.StdEncoding.EncodeToString([]byte(anthropicStream[0])) + `"}`
	for name, code := range map[string]contract.Code{
		"throttlingException": contract.CodeRateLimited, "modelTimeoutException": contract.CodeTimeout, "internalServerException": contract.CodeUnavailable,
		"validationException": contract.CodeBadRequest, "somethingNew": contract.CodeUnavailable,
	} {
		p := bedrockWire
		p.APIKeyEnv, p.BaseURL = "KEY", ownBase(p.Kind, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
			_, _ = w.Write(frame(t, "event", "chunk", start))
			_, _ = w.Write(frame(t, "exception", name, `{"message":"it went wrong"}`))
		}))
		_, err := newClient(t, p, Options{Getenv: func(string) string { return "a-key" }}).Complete(t.Context(), question())
		class := contract.ClassInfra
		if code == contract.CodeBadRequest {
			class = contract.ClassConfig
		}
		require.Contains(t, requireFault(t, err, class, code).Message, "it went wrong")
	}
}
