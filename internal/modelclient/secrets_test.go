package modelclient

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// The canaries; none of them may ever appear in an error.
const (
	canaryKey      = "sk-canary-0123456789abcdef+/="
	canaryUser     = "canaryuser"
	canaryPassword = "p@ss/canary"
	canaryHeader   = "canary-header-value"
)

// everywhere returns all texts that could be made from an error: printed, logged, sent
// through Temporal.
func everywhere(t *testing.T, err error) string {
	t.Helper()
	var all strings.Builder
	for e := err; e != nil; {
		fmt.Fprintf(&all, "%v\n%+v\n%#v\n%q\n", e, e, e, e)
		u, ok := e.(interface{ Unwrap() error })
		if !ok {
			break
		}
		e = u.Unwrap()
	}
	doc, jsonErr := json.Marshal(fault.Of(err))
	require.NoError(t, jsonErr)
	all.Write(doc)
	fmt.Fprintf(&all, "%+v", fault.ToTemporal(err, 1))
	return all.String()
}

func requireNoCanary(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{
		canaryKey, canaryUser, canaryPassword, canaryHeader, url.QueryEscape(canaryKey), url.PathEscape(canaryPassword),
		base64.StdEncoding.EncodeToString([]byte(canaryUser + ":" + canaryPassword)), "0123456789abcdef",
	} {
		require.NotContains(t, text, secret)
	}
}

func TestNoErrorEverHoldsAKey(t *testing.T) {
	t.Parallel()
	echo := func(r *http.Request) string {
		user, password, _ := r.BasicAuth()
		return "key " + r.Header.Get("Authorization") + " " + canaryKey + " header " + r.Header.Get("X-Secret") + " user " + user + " " + password +
			" " + canaryUser + " " + canaryPassword + " escaped " + url.QueryEscape(canaryKey) + " partly sk-canary-01…***def"
	}
	servers := map[string]http.HandlerFunc{
		"echoed with 401": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": "Incorrect API key provided: " + echo(r)}})
		},
		"echoed as text with 500": func(w http.ResponseWriter, r *http.Request) { http.Error(w, echo(r), http.StatusInternalServerError) },
		"echoed with 400": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": echo(r)})
		},
		"echoed in a stream": func(w http.ResponseWriter, r *http.Request) {
			msg, _ := json.Marshal(echo(r))
			events(`{"error":{"message":`+string(msg)+`}}`)(w, r)
		},
		"echoed as broken JSON": func(w http.ResponseWriter, r *http.Request) { events(`{"choices": `+echo(r))(w, r) },
		"echoed in a tool name": func(w http.ResponseWriter, r *http.Request) {
			msg, _ := json.Marshal(canaryKey)
			events(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":`+string(msg)+`,"arguments":"{"}}]},"finish_reason":"stop"}]}`)(w, r)
		},
		"in a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/"+url.PathEscape(canaryKey), http.StatusFound)
		},
		"a broken connection": breakConnection,
		"no answer": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
	}
	for name, h := range servers {
		for _, withKey := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, key %v", name, withKey), func(t *testing.T) {
				t.Parallel()
				u, err := url.Parse(serve(t, h))
				require.NoError(t, err)
				u.User = url.UserPassword(canaryUser, canaryPassword)
				p := model.Provider{Kind: model.KindCompatible, BaseURL: u.String(), Headers: map[string]string{"X-Secret": canaryHeader}}
				if withKey {
					p.APIKeyEnv = "CANARY"
				}
				c := newClient(t, p, Options{Getenv: func(string) string { return canaryKey }})
				req := question()
				req.Timeout = 200 * time.Millisecond
				_, err = c.Complete(t.Context(), req)
				require.Error(t, err)
				requireNoCanary(t, everywhere(t, err))
				require.Contains(t, err.Error(), u.Host, "the address is named without its userinfo")
				if name != "no answer" {
					if err := c.Probe(t.Context(), "p"); err != nil {
						requireNoCanary(t, everywhere(t, err))
					}
				}
			})
		}
	}
}

func TestConfigurationErrorsHoldNoPassword(t *testing.T) {
	t.Parallel()
	for _, base := range []string{
		"http://" + canaryUser + ":" + canaryHeader + "@host\x7f/v1",
		"ftp://" + canaryUser + ":" + canaryHeader + "@host/v1",
		"http://" + canaryUser + ":" + canaryHeader + "@host/v1?key=" + canaryHeader,
	} {
		_, err := New([]model.Provider{{Name: "p", Kind: model.KindCompatible, BaseURL: base}}, nil, Options{})
		_ = requireFault(t, err, contract.ClassConfig, contract.CodeInvalidConfig)
		requireNoCanary(t, everywhere(t, err))
	}
}

func TestAKeyGoesToItsOwnProviderOnly(t *testing.T) {
	// Not parallel: it sets the process's environment.
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"} {
		t.Setenv(name, canaryKey)
	}
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Leak: "+canaryKey)
	var seen http.Header
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		events(`{"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}`, "[DONE]")(w, r)
	})
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/never")
	c := newClient(t, model.Provider{Kind: model.KindCompatible, BaseURL: base}, Options{})
	_, err := c.Complete(t.Context(), question())
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(seen), canaryKey)
	require.Empty(t, seen.Get("Authorization"))
}

func TestKeysComeFromTheEnvironmentOrAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte("from-file\n"), 0o600))
	env := func(name string) string {
		return map[string]string{"OPENAI_API_KEY": " usual ", "OTHER": "other", "BAD": "a\nb"}[name]
	}
	cases := map[string]struct {
		p    model.Provider
		want string
		says string // of the error
	}{
		"usual variable":    {p: model.Provider{Kind: model.KindOpenAI}, want: "usual"},
		"own variable":      {p: model.Provider{Kind: model.KindOpenAI, APIKeyEnv: "OTHER"}, want: "other"},
		"file wins":         {p: model.Provider{Kind: model.KindOpenAI, APIKeyEnv: "OTHER", APIKeyFile: file}, want: "from-file"},
		"none needed":       {p: model.Provider{Kind: model.KindOllama}},
		"unset variable":    {p: model.Provider{Kind: model.KindGemini}, says: "GEMINI_API_KEY"},
		"named but unset":   {p: model.Provider{Kind: model.KindCompatible, BaseURL: "http://h/v1", APIKeyEnv: "NONE"}, says: "NONE"},
		"file not there":    {p: model.Provider{Kind: model.KindOpenAI, APIKeyFile: file + ".gone"}, says: ".gone"},
		"several lines":     {p: model.Provider{Kind: model.KindOpenAI, APIKeyEnv: "BAD"}, says: "control characters"},
		"a directory":       {p: model.Provider{Kind: model.KindOpenAI, APIKeyFile: filepath.Dir(file)}, says: filepath.Dir(file)},
		"usual, at Azure":   {p: model.Provider{Kind: model.KindAzure, BaseURL: "https://r.openai.azure.com/openai/v1"}, says: "AZURE_OPENAI_API_KEY"},
		"unset, OpenRouter": {p: model.Provider{Kind: model.KindOpenRouter}, says: "OPENROUTER_API_KEY"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.p.Name = "p"
			key, err := tc.p.WithDefaults().Key(env)
			if tc.says == "" {
				require.NoError(t, err)
				require.Equal(t, tc.want, key)
				return
			}
			f := requireFault(t, err, contract.ClassConfig, contract.CodeUnauthorized)
			require.Contains(t, f.Message, tc.says)
		})
	}
}
