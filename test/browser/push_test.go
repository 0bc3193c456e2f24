package browser

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/notify"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
	"github.com/rocketgpt/orchestrator/server"
	"github.com/rocketgpt/orchestrator/test/showcase"
)

// TestABrowserSubscribesAndShowsNotifications subscribes a browser on the page, sends it a test, and lets
// its service worker show a message. Headless browsers have no push service, so the test has one: the
// page's PushManager is a fake that names it.
func TestABrowserSubscribesAndShowsNotifications(t *testing.T) {
	p := find(t)
	var sent atomic.Int64
	service := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/send/chromium" || r.Header.Get("Content-Encoding") != "aes128gcm" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		sent.Add(1)
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(func() { service.CloseClientConnections(); service.Close() })
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: service.Certificate().Raw}), 0o600))
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	require.NoError(t, err)
	url, db := filled(t, showcase.Showcase, func(o *server.Options) {
		hooks := config.Default().Server.Webhooks
		hooks.AllowPrivate = true
		o.Notifier = notify.New(notify.Options{
			Store: o.Store, Webhooks: hooks, Getenv: func(string) string { return base64.RawURLEncoding.EncodeToString(key.Bytes()) },
			Channels: map[string]config.Notification{"browsers": {
				Kind: config.ChannelPush, KeyEnv: "KEY", CAFile: ca, Services: []string{"127.0.0.1:*"}, MaxBrowsers: 10, PerPerson: 10, Timeout: 10 * time.Second,
			}},
		})
	})
	before, err := notifications.Browsers(t.Context(), db)
	require.NoError(t, err)
	auth := make([]byte, 16)
	_, _ = rand.Read(auth)
	browser, err := ecdh.P256().GenerateKey(rand.Reader)
	require.NoError(t, err)
	push, err := json.Marshal(map[string]string{
		"endpoint": service.URL + "/send/chromium", "p256dh": base64.RawURLEncoding.EncodeToString(browser.PublicKey().Bytes()), "auth": base64.RawURLEncoding.EncodeToString(auth),
	})
	require.NoError(t, err)
	p.passes(t, "push", "RGPT_BROWSER_URL="+url, "RGPT_PUSH="+string(push))
	require.EqualValues(t, 1, sent.Load(), "the test message")
	after, err := notifications.Browsers(t.Context(), db)
	require.NoError(t, err)
	require.Equal(t, before, after, "the browser unsubscribed")
}
