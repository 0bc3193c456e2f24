package notify_test

import (
	"io"
	"log/slog"
	"math/rand/v2"
	"mime"
	"mime/quotedprintable"
	"net/http"
	"net/mail"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/notify"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func decoded(m *mail.Message) string {
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(body), "\r\n", "\n")
}

func TestAChatMessageSaysWhatIsNeededAndHowToAnswer(t *testing.T) {
	t.Parallel()
	c := newChat(t, nil)
	b := setup(t, map[string]config.Notification{"team": slackChannel()})
	b.env[slackURL] = c.URL
	b.start(t)
	deadline := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	b.event(t, b.run, contract.EventApprovalRequested, map[string]any{"kind": contract.ApprovalRelease, "reason": "3 files changed", "deadline": deadline})
	sent := b.all(t, notifications.Sent, 1)[0]
	require.Equal(t, "team", sent.Channel)
	require.Equal(t, contract.EventID(b.run, 2), sent.Event)
	require.Equal(t, 1, sent.Attempts)
	require.Equal(t, sent.ID, sent.Message)
	require.NotNil(t, sent.SentAt)
	got := c.all()
	require.Len(t, got, 1)
	require.Equal(t, "header", got[0].Blocks[0].Type)
	require.Equal(t, "Run 1 waits for approval of its release", got[0].Blocks[0].Text.Text)
	require.Equal(t, "Project: app\nGoal: Fix the &lt;!channel&gt; parser\nReason: 3 files changed\nUntil: 2026-11-28 12:00:00 UTC", got[0].Blocks[1].Text.Text)
	require.Equal(t, "<https://rgpt.example.com/runs/1|Open the run>  `rgpt run approve 1`", got[0].Blocks[2].Elements[0].Text)
	require.Contains(t, got[0].Text, "Reason: `3 files changed`\nUntil: `2026-11-28 12:00:00 UTC`\nLink: https://rgpt.example.com/runs/1")
}

func TestAnEmailArrivesEncryptedWithTheSameIDInEachAttempt(t *testing.T) {
	t.Parallel()
	p := newPostOffice(t)
	p.answer = func(n int, c *smtp.Conn) error {
		switch n {
		case 1: // it has the message, but its answer is lost
			_ = c.Conn().Close()
			return nil
		case 2:
			return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "try again later"}
		}
		return nil
	}
	b := setup(t, map[string]config.Notification{"mail": p.channel()})
	b.env["USER"], b.env["PASSWORD"] = "rgpt", "pass-word-1"
	b.start(t)
	b.event(t, b.run, contract.EventInputRequested, map[string]any{"question": "Which one?", "options": []string{"a", "b"}})
	sent := b.all(t, notifications.Sent, 1)[0]
	require.Equal(t, 3, sent.Attempts)
	got := p.all()
	require.Len(t, got, 3)
	for _, l := range got {
		require.Equal(t, got[0].raw, l.raw, "the same message, so that it is recognised")
		require.True(t, l.encrypted)
		require.Equal(t, "rgpt", l.user)
		require.Equal(t, []string{"ada@example.com", "bob@example.com"}, l.to)
	}
	require.Regexp(t, `^<rgpt\.mail\.\d+\.\d+@example\.com>$`, got[0].Header.Get("Message-Id"))
	require.Equal(t, "auto-generated", got[0].Header.Get("Auto-Submitted"))
	require.Equal(t, "<mail.rgpt-notifications.example.com>", got[0].Header.Get("List-Id"))
	require.Equal(t, "[RocketGPT] Run 1 asks a question: Fix the <!channel> parser", subject(t, got[0]))
	require.Equal(t, "Run 1 asks a question\nProject: app\nGoal: Fix the <!channel> parser\nQuestion: Which one?\nOptions: a / b\n"+
		"Link: https://rgpt.example.com/runs/1\nCommand: rgpt run answer 1 OPTION\n", got[0].body)
}

func subject(tb testing.TB, l letter) string {
	tb.Helper()
	text, err := new(mime.WordDecoder).DecodeHeader(l.Header.Get("Subject"))
	require.NoError(tb, err)
	return text
}

func TestAServerWithoutEncryptionOrWithAnotherCertificateGetsNoPassword(t *testing.T) {
	t.Parallel()
	p := newPostOffice(t)
	channel := p.channel()
	channel.CAFile = "" // the system does not know the certificate
	b := setup(t, map[string]config.Notification{"mail": channel})
	b.env["USER"], b.env["PASSWORD"] = "rgpt", "pass-word-1"
	got, err := notify.New(b.options).Test(t.Context(), "mail")
	require.NoError(t, err)
	require.False(t, got.Sent)
	require.Contains(t, got.Problem, "certificate")
	require.Empty(t, p.all())
}

func TestAChannelIsNotifiedOfWhatItAskedForAndOnlyFromThenOn(t *testing.T) {
	t.Parallel()
	c := newChat(t, nil)
	channels := map[string]config.Notification{}
	for name, change := range map[string]func(*config.Notification){
		"all":      func(*config.Notification) {},
		"waits":    func(n *config.Notification) { n.On = []string{config.NotifyWaits} },
		"failed":   func(n *config.Notification) { n.On = []string{config.NotifyFailed} },
		"done":     func(n *config.Notification) { n.On = []string{config.NotifyDone} },
		"budget":   func(n *config.Notification) { n.On = []string{config.NotifyBudget} },
		"reminded": func(n *config.Notification) { n.On = []string{config.NotifyBudget} },
		"apps":     func(n *config.Notification) { n.Projects = []string{"ap*"} },
		"others":   func(n *config.Notification) { n.Projects = []string{"a_p", "other"} },
	} {
		n := slackChannel()
		change(&n)
		channels[name] = n
	}
	b := setup(t, channels)
	b.env[slackURL] = c.URL
	b.failed(t, "before")
	b.start(t)
	for kind, payload := range map[contract.EventType]any{
		contract.EventApprovalRequested:            map[string]any{"kind": "plan"},
		contract.EventInterventionRequested:        map[string]any{"reason": "stuck"},
		contract.EventApprovalReminded:             map[string]any{"to": []string{"channel:reminded", "page"}},
		contract.EventInputReminded:                map[string]any{"to": []string{"webhook:all"}},
		contract.EventRunFailed:                    map[string]any{"code": contract.CodeUnavailable},
		contract.PhaseReleaser.CompletedEvent():    map[string]any{},
		contract.EventBudgetWarning:                map[string]any{"warning": "80%"},
		contract.PhaseBuilder.ErrorEvent():         map[string]any{"code": contract.CodeBudgetExceeded},
		contract.PhaseTester.ErrorEvent():          map[string]any{"code": contract.CodeUnavailable},
		contract.EventRunUpdated:                   map[string]any{"status": "done", "by": "ada"},
		contract.EventHealStarted:                  map[string]any{},
		contract.EventPullRequestOpened:            map[string]any{},
		contract.EventStayEnded:                    map[string]any{},
		contract.Phase("planner").CompletedEvent(): map[string]any{},
	} {
		b.event(t, b.run, kind, payload)
	}
	b.event(t, b.create(t, "app", "x"), contract.EventApprovalGranted, map[string]any{})
	b.event(t, b.run, contract.EventRunFailed, map[string]any{"code": contract.CodeCancelled})
	b.event(t, b.run, contract.EventRunUpdated, map[string]any{"status": "done"})
	b.event(t, b.create(t, "other", "x"), contract.EventRunFailed, map[string]any{"code": contract.CodeUnavailable})
	want := map[string][]string{
		"all": {
			"approval.requested", "budget.warning", "builder.error", "intervention.requested", "releaser.completed", "run.failed", "run.failed", "run.updated",
		},
		"waits":    {"approval.requested", "intervention.requested"},
		"failed":   {"run.failed", "run.failed"},
		"done":     {"releaser.completed", "run.updated"},
		"budget":   {"budget.warning", "builder.error"},
		"reminded": {"approval.reminded", "budget.warning", "builder.error"},
		"apps":     {"approval.requested", "budget.warning", "builder.error", "intervention.requested", "releaser.completed", "run.failed", "run.updated"},
		"others":   {"run.failed"},
	}
	all := 0
	for _, types := range want {
		all += len(types)
	}
	got := map[string][]string{}
	for _, n := range b.all(t, notifications.Sent, all) {
		got[n.Channel] = append(got[n.Channel], n.EventType)
	}
	for name, types := range want {
		require.ElementsMatch(t, types, got[name], name)
	}
}

// hostile are texts that try to be more than texts.
var hostile = []string{
	"<!channel> <!here> <@U012AB3CD> <#C012|general> <https://evil.example|your bank> &lt;!channel&gt;",
	"@channel @all @here ![x](https://evil.example/p.png) [a](https://evil.example) **bold** ~~s~~ `code` ``` fence",
	"one\r\nBcc: eve@evil.example\r\n\r\nSubject: two\x00\x1b[31mred\x1b]8;;https://evil.example\x07link\u202etxt\u200b",
	"https://evil.example www.evil.example mailto:eve@evil.example ://",
	"\n.\nQUIT\n.\r\nMAIL FROM:<eve@evil.example>",
	strings.Repeat("`<&>", 5000),
}

func TestHostileTextsGainNothing(t *testing.T) {
	t.Parallel()
	c, p := newChat(t, nil), newPostOffice(t)
	b := setup(t, map[string]config.Notification{"team": slackChannel(), "mail": p.channel()})
	b.env[slackURL], b.env["USER"], b.env["PASSWORD"] = c.URL, "rgpt", "pass-word-1"
	b.start(t)
	for _, text := range hostile {
		run := b.create(t, "project "+text, "goal "+text)
		b.event(t, run, contract.EventInterventionRequested, map[string]any{"reason": text, "action_required": text, "kind": text, "question": text, "options": []string{text, text}})
	}
	b.all(t, notifications.Sent, 2*len(hostile))
	chatted := c.all()
	require.Len(t, chatted, len(hostile))
	for _, got := range chatted {
		require.Less(t, len(got.raw), 40_000)
		for _, block := range got.Blocks {
			if block.Text.Text != "" {
				require.Equal(t, "plain_text", block.Text.Type, "texts of others are shown as they are")
				require.LessOrEqual(t, len([]rune(block.Text.Text)), 3000)
				require.NotRegexp(t, `[<>]`, block.Text.Text)
			}
			for _, e := range block.Elements {
				require.Regexp(t, "^<https://rgpt\\.example\\.com/runs/\\d+\\|Open the run>  `rgpt run approve \\d+`$", e.Text)
			}
		}
		for line := range strings.SplitSeq(got.Text, "\n") {
			if name, fact, ok := strings.Cut(line, ": `"); ok { // in code, without an end before the last character
				require.Contains(t, []string{"Project", "Goal", "Question", "Options", "Reason", "Needed"}, name)
				require.Equal(t, len(fact)-1, strings.Index(fact, "`"), line)
			} else {
				require.Regexp(t, `^(Run \d+ needs help|Link: https://rgpt\.example\.com/runs/\d+|Command: rgpt run approve \d+)$`, line)
			}
		}
		require.NotRegexp(t, `[\x00-\x09\x0b-\x1f\x7f\x{202e}\x{200b}<>]`, got.Text)
	}
	mailed := p.all()
	require.Len(t, mailed, len(hostile))
	for _, got := range mailed {
		require.Equal(t, []string{"ada@example.com", "bob@example.com"}, got.to)
		require.Empty(t, got.Header.Get("Bcc"))
		require.Len(t, got.Header["Subject"], 1)
		require.LessOrEqual(t, len([]rune(subject(t, got))), 170)
		lines := strings.Split(strings.TrimSuffix(got.body, "\n"), "\n")
		require.LessOrEqual(t, len(lines), 9)
		for _, line := range lines {
			require.Regexp(t, `^(Run \d+ needs help$|Project: |Goal: |Question: |Options: |Reason: |Needed: |Link: https://rgpt\.example\.com/runs/\d+$|Command: rgpt run approve \d+$)`, line)
			require.NotRegexp(t, `[\x00-\x1f\x7f\x{202e}\x{200b}]`, line)
			if !strings.HasPrefix(line, "Link: ") {
				require.NotRegexp(t, `[a-z]://|www\.|mailto:`, line)
			}
		}
	}
}

func TestARefusedMessageFailsVisiblyAndOthersAreSent(t *testing.T) {
	t.Parallel()
	c := newChat(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	p := newPostOffice(t)
	p.refuse = "bob@example.com"
	b := setup(t, map[string]config.Notification{"team": slackChannel(), "mail": p.channel()})
	b.env[slackURL], b.env["USER"], b.env["PASSWORD"] = c.URL, "rgpt", "pass-word-1"
	b.start(t)
	b.failed(t, "first")
	reasons := map[string]string{}
	for _, n := range b.all(t, notifications.Failed, 2) {
		require.Equal(t, 1, n.Attempts)
		reasons[n.Channel] = n.Reason
	}
	require.Equal(t, "it responded with 400 Bad Request", reasons["team"])
	require.Contains(t, reasons["mail"], "no such mailbox")
	b.failed(t, "second")
	b.all(t, notifications.Sent, 1)
	b.all(t, notifications.Failed, 3)
	require.Len(t, c.all(), 2, "nobody is notified of a notification that failed")
}

func TestAReceiverThatStaysDownIsTriedForADay(t *testing.T) {
	t.Parallel()
	c := newChat(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	b := setup(t, map[string]config.Notification{"team": slackChannel()})
	b.env[slackURL] = c.URL
	b.start(t)
	b.failed(t, "x")
	await.Until(t, "some attempts", func() bool { return len(c.all()) >= 3 })
	pending := b.all(t, notifications.Pending, 1)[0]
	require.Equal(t, "it responded with 502 Bad Gateway", pending.Reason)
	require.NotNil(t, pending.NextAt)
	b.turn(time.Now().Add(notify.GiveUp + time.Minute))
	failed := b.all(t, notifications.Failed, 1)[0]
	require.Equal(t, "it responded with 502 Bad Gateway", failed.Reason)
	require.Nil(t, failed.NextAt)
}

func TestAReceiverThatAsksToWaitIsLeftAlone(t *testing.T) {
	t.Parallel()
	c := newChat(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	b := setup(t, map[string]config.Notification{"team": slackChannel()})
	b.env[slackURL] = c.URL
	b.start(t)
	b.failed(t, "first")
	await.Until(t, "the first attempt", func() bool { return len(c.all()) == 1 })
	b.failed(t, "second")
	b.all(t, notifications.Sent, 2)
	got := c.all()
	require.Len(t, got, 3)
	require.GreaterOrEqual(t, got[1].at.Sub(got[0].at), time.Second, "no message is sent meanwhile")
}

func TestAChannelThatHangsDelaysNoOther(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hanging := newChat(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	c := newChat(t, nil)
	slow := slackChannel()
	slow.URLEnv, slow.Timeout = "SLOW", time.Minute
	b := setup(t, map[string]config.Notification{"slow": slow, "team": slackChannel()})
	b.env["SLOW"], b.env[slackURL] = hanging.URL, c.URL
	b.start(t)
	b.failed(t, "0")
	await.Until(t, "the channel hangs", func() bool { return len(hanging.all()) == 1 })
	for range 5 {
		b.failed(t, "x")
	}
	await.Until(t, "the others", func() bool { return len(c.all()) == 6 })
	require.Len(t, hanging.all(), 1)
	close(release)
	await.Until(t, "the first one", func() bool { return len(hanging.all()) == 6 })
}

func TestEachEventArrivesAtLeastOnceWhenSendersAreKilled(t *testing.T) {
	t.Parallel()
	const seed, kills, perServer = 7, 12, 6
	chance := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // repeatable, no secret
	var calm atomic.Bool
	faults := make([]int, 400)
	for i := range faults {
		faults[i] = chance.IntN(6)
	}
	c := newChat(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if calm.Load() || n >= len(faults) {
			return
		}
		switch faults[n] {
		case 0:
			w.WriteHeader(http.StatusInternalServerError)
		case 1:
			lose(w)
		case 2:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		case 3: // still under way when its sender is killed
			select {
			case <-r.Context().Done():
			case <-time.After(300 * time.Millisecond):
			}
		}
	})
	address := storetest.URL(t)
	b := over(t, storetest.Open(t, address), map[string]config.Notification{"team": slackChannel()})
	require.NoError(t, notifications.Add(t.Context(), b.Store, "team"))
	server := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), notifierOf+"="+address, slackURL+"="+c.URL), os.Stderr
		require.NoError(t, cmd.Start())
		return cmd
	}
	servers := []*exec.Cmd{server(), server()} // which share the work
	events := 0
	for kill := range kills {
		before := len(c.all())
		for range perServer {
			b.failed(t, "event-"+string(rune('A'+events/26))+string(rune('a'+events%26)))
			events++
		}
		await.Until(t, "a message under way", func() bool { return len(c.all()) > before+chance.IntN(3) })
		victim := servers[kill%2]
		require.NoError(t, victim.Process.Kill())
		require.Error(t, victim.Wait())
		servers[kill%2] = server()
	}
	calm.Store(true)
	b.all(t, notifications.Sent, events)
	for _, s := range servers {
		require.NoError(t, s.Process.Kill())
		require.Error(t, s.Wait())
	}
	arrived := map[string]bool{}
	attempts := 0
	for _, got := range c.all() {
		attempts++
		for i := range events {
			name := "event-" + string(rune('A'+i/26)) + string(rune('a'+i%26))
			arrived[name] = arrived[name] || strings.Contains(got.Text, name+"`")
		}
	}
	require.Len(t, arrived, events)
	for name, there := range arrived {
		require.True(t, there, name)
	}
	t.Logf("%d events arrived in %d attempts over %d kills", events, attempts, kills)
}

func TestSecretsAppearNowhere(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	p := newPostOffice(t)
	channels := map[string]config.Notification{"team": slackChannel(), "mail": p.channel()}
	b := setup(t, channels, func(o *notify.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	b.env[slackURL] = "http://127.0.0.1:1/services/T0/B0/TopSecretPath"
	b.env["USER"], b.env["PASSWORD"] = "rgpt", "wrong-pass-9"
	stop := b.start(t)
	b.failed(t, "x")
	var texts []string
	await.Until(t, "both failures", func() bool {
		texts = nil
		for _, n := range b.list(t, notifications.Filter{}) {
			if n.Reason != "" {
				texts = append(texts, n.Reason)
			}
		}
		return len(texts) == 2
	})
	stop()
	n := notify.New(b.options)
	defer n.Close()
	for name := range channels {
		tested, err := n.Test(t.Context(), name)
		require.NoError(t, err)
		require.NotEmpty(t, tested.Problem)
		_, err = n.Probe(t.Context(), name)
		require.Error(t, err)
		texts = append(texts, tested.Problem, err.Error(), fault.Of(err).Message)
	}
	text := strings.Join(append(texts, log.String()), "\n")
	require.Contains(t, text, "cannot reach it")
	require.Contains(t, text, "[secret]")
	for _, secret := range []string{"TopSecretPath", "services/", "wrong-pass-9"} {
		require.NotContains(t, text, secret)
	}
}

func TestPrivateAddressesAreRefusedUnlessAllowed(t *testing.T) {
	t.Parallel()
	c := newChat(t, nil)
	b := setup(t, map[string]config.Notification{"team": slackChannel()}, func(o *notify.Options) { o.Webhooks.AllowPrivate = false })
	n := notify.New(b.options)
	defer n.Close()
	for _, address := range []string{c.URL, "http://localhost" + c.URL[len("http://127.0.0.1"):], "http://169.254.169.254/latest", "http://[::1]/"} {
		b.env[slackURL] = address
		tested, err := n.Test(t.Context(), "team")
		require.NoError(t, err)
		require.Contains(t, tested.Problem, "server.webhooks.allow_private", address)
		_, err = n.Probe(t.Context(), "team")
		require.ErrorContains(t, err, "server.webhooks.allow_private", address)
	}
	require.Empty(t, c.all())
}

func TestAProbeConnectsButSendsNothing(t *testing.T) {
	t.Parallel()
	c, p := newChat(t, nil), newPostOffice(t)
	b := setup(t, map[string]config.Notification{"team": slackChannel(), "mail": p.channel()})
	b.env[slackURL], b.env["USER"], b.env["PASSWORD"] = c.URL, "rgpt", "pass-word-1"
	n := notify.New(b.options)
	defer n.Close()
	text, err := n.Probe(t.Context(), "team")
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1 can be reached", text)
	text, err = n.Probe(t.Context(), "mail")
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1 responds over an encrypted connection and accepts the password", text)
	require.Empty(t, c.all())
	require.Empty(t, p.all())
	_, err = n.Probe(t.Context(), "other")
	require.ErrorIs(t, err, store.ErrNotFound)
	tested, err := n.Test(t.Context(), "mail")
	require.NoError(t, err)
	require.True(t, tested.Sent, tested.Problem)
	require.Equal(t, "[RocketGPT] Test of the notification channel mail", subject(t, p.all()[0]))
}

func TestWhatHappenedTooLongAgoIsDropped(t *testing.T) {
	t.Parallel()
	c := newChat(t, nil)
	b := setup(t, map[string]config.Notification{"team": slackChannel()})
	b.env[slackURL] = c.URL
	require.NoError(t, notifications.Add(t.Context(), b.Store, "team"))
	b.failed(t, "x")
	b.turn(time.Now().Add(notify.MaxAge + time.Minute))
	b.start(t)
	require.Equal(t, "the event was too old when a server could notify of it", b.all(t, notifications.Dropped, 1)[0].Reason)
	require.Empty(t, c.all())
}

func TestTwoServersSendEachMessageOnce(t *testing.T) {
	t.Parallel()
	c := newChat(t, nil)
	b := setup(t, map[string]config.Notification{"team": slackChannel()})
	b.env[slackURL] = c.URL
	other := &installation{Store: b.Store, options: b.options}
	other.options.Feed = storetest.Feed(t, b.Store, feed.Options{})
	b.start(t)
	other.start(t)
	for range 30 {
		b.failed(t, "x")
	}
	b.all(t, notifications.Sent, 30)
	require.Len(t, c.all(), 30)
}

// heldSet lets a change set of three runs in the projects app, web and docs wait for a person.
func (b *installation) heldSet(t *testing.T) changesets.Set {
	t.Helper()
	n := changesets.New{Tenant: store.DefaultTenant, Title: "Rename the field", Settings: contract.ChangeSetSettings{Incomplete: contract.IncompleteHold, Wait: time.Hour}}
	for _, project := range []string{"app", "web", "docs"} {
		n.Runs = append(n.Runs, storetest.Filled(store.NewRun{Project: project, GoalTitle: "Rename the field"}))
	}
	return storetest.HeldSet(t, b.Store, n, nil)
}

func TestAChannelIsNotifiedOnceOfASetThatWaitsForAPerson(t *testing.T) {
	t.Parallel()
	c := newChat(t, nil)
	channels := map[string]config.Notification{"all": slackChannel(), "web": slackChannel(), "docs": slackChannel(), "failed": slackChannel()}
	for name, change := range map[string]func(*config.Notification){
		"all":    func(n *config.Notification) { n.On = []string{config.NotifyWaits} },
		"web":    func(n *config.Notification) { n.Projects = []string{"web"} },
		"docs":   func(n *config.Notification) { n.Projects = []string{"docs"} },
		"failed": func(n *config.Notification) { n.On = []string{config.NotifyFailed} },
	} {
		n := channels[name]
		change(&n)
		channels[name] = n
	}
	b := setup(t, channels)
	b.env[slackURL] = c.URL
	b.start(t)
	set := b.heldSet(t)
	b.failed(t, "for the channel of failures, after the rest")
	sent := b.all(t, notifications.Sent, 3)
	got := map[string]int64{}
	for _, n := range sent {
		if n.EventType == string(contract.EventChangeSetWaiting) {
			require.Zero(t, got[n.Channel], "one message")
			got[n.Channel] = n.RunID
		}
	}
	require.Equal(t, map[string]int64{"all": set.Runs[0].RunID, "web": set.Runs[1].RunID}, got)
	for _, m := range c.all() {
		if !strings.Contains(m.Blocks[0].Text.Text, "waits") {
			continue
		}
		require.Equal(t, "Change set 1 waits for a decision", m.Blocks[0].Text.Text)
		require.Contains(t, m.Blocks[1].Text.Text, "Reason: 2 of 3 runs of change set 1 are ready; missing: run ")
		require.Contains(t, m.Blocks[1].Text.Text, "Needed: release those that are ready (rgpt set release 1), stop all (rgpt set stop 1)")
		require.Equal(t, "<https://rgpt.example.com/change-sets/1|Open the change set>  `rgpt set release 1`", m.Blocks[2].Elements[0].Text)
	}
}

func TestAMessageAboutASetIsSentAsLongAsTheSetWaits(t *testing.T) {
	t.Parallel()
	for name, decided := range map[string]bool{"it was released": true, "one of its runs has ended": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChat(t, nil)
			channel := slackChannel()
			channel.On, channel.Digest = []string{config.NotifyWaits}, time.Hour
			b := setup(t, map[string]config.Notification{"team": channel})
			b.env[slackURL] = c.URL
			stop := b.start(t)
			set := b.heldSet(t)
			b.settled(t, 1)
			stop()
			if decided {
				_, err := changesets.Release(t.Context(), b.Store, set.ID, "mara", "")
				require.NoError(t, err)
			} else {
				_, err := b.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(set.Runs[0].RunID), WorkflowRunID: "first"}, contract.Record{
					RunID: set.Runs[0].RunID, Seq: 2, Run: &contract.RunChange{Status: contract.StatusCancelled, Finished: true},
				})
				require.NoError(t, err)
			}
			_, err := changesets.Decide(t.Context(), b.Store, set.ID)
			require.NoError(t, err)
			b.turn(time.Now().Add(time.Hour + time.Minute))
			b.start(t)
			if decided {
				require.NotEmpty(t, b.all(t, notifications.Dropped, 1)[0].Reason)
				require.Empty(t, c.all())
				return
			}
			b.all(t, notifications.Sent, 1)
			require.Len(t, c.all(), 1)
		})
	}
}
