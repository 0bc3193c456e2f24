package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/wneessen/go-mail"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/terminal"
	"github.com/rocketgpt/orchestrator/internal/version"
)

// maxSubject is the number of characters of a subject.
const maxSubject = 150

// email sends by SMTP.
type email struct {
	channel  string
	settings config.Notification
	getenv   func(string) string
}

// linkMarks match what mail programs recognise addresses by, in texts of others.
var linkMarks = regexp.MustCompile(`(?i)://|\bwww\.|\bmailto:`)

// unlinked returns a text of others without what mail programs turn into links.
func unlinked(text string) string {
	return linkMarks.ReplaceAllStringFunc(text, func(mark string) string {
		if mark == "://" {
			return "[://]"
		}
		last := len(mark) - 1
		return mark[:last] + "[" + mark[last:] + "]"
	})
}

// mailBody returns a message as plain text.
func mailBody(m message) string {
	var out strings.Builder
	for n, i := range m.items {
		if n > 0 {
			out.WriteString("\n")
		}
		out.WriteString(strings.Join(i.lines(unlinked), "\n") + "\n")
	}
	if len(m.items) == 0 {
		out.WriteString(m.title + "\n")
	}
	if rest := m.rest(); rest != "" {
		out.WriteString("\n" + rest + "\n")
	}
	return out.String()
}

// mailSubject returns the subject of a message, which shows the goal of a single run.
func mailSubject(m message) string {
	subject := m.title
	if len(m.items) == 1 {
		for _, f := range m.items[0].facts {
			if f.name == "Goal" && f.text != "" {
				subject += ": " + unlinked(f.text)
			}
		}
	}
	if utf8.RuneCountInString(subject) > maxSubject {
		subject = string([]rune(subject)[:maxSubject-1]) + "…"
	}
	return "[RocketGPT] " + subject
}

// mail returns a message with all its headers. Its ID is the same in each attempt, so that mail servers
// and programs recognise a repeated message. Nothing answers it automatically, and this program reads
// no mail, so bounces cause no further messages.
func (e *email) mail(m message) (*mail.Msg, error) {
	msg := mail.NewMsg(mail.WithCharset(mail.CharsetUTF8), mail.WithEncoding(mail.EncodingQP), mail.WithNoDefaultUserAgent())
	if err := msg.FromFormat("RocketGPT", e.settings.From); err != nil {
		return nil, fmt.Errorf("the sender's address cannot be used: %w", err)
	}
	if err := msg.To(e.settings.To...); err != nil {
		return nil, fmt.Errorf("a recipient's address cannot be used: %w", err)
	}
	_, domain, _ := strings.Cut(e.settings.From, "@")
	msg.SetMessageIDWithValue(fmt.Sprintf("rgpt.%s.%s@%s", e.channel, m.key, domain))
	msg.SetDateWithValue(m.at)
	msg.Subject(mailSubject(m))
	for name, value := range map[string]string{
		"Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All", "List-Id": "<" + e.channel + ".rgpt-notifications." + domain + ">",
		"X-Mailer": "rgpt/" + version.Version,
	} {
		msg.SetGenHeader(mail.Header(name), value)
	}
	msg.SetBodyString(mail.TypeTextPlain, mailBody(m))
	return msg, nil
}

// client returns a client, and a function that closes its connection, which must be called. The
// connection also ends with the context.
func (e *email) client(ctx context.Context) (*mail.Client, func(), error) {
	user, password, err := e.settings.Login(e.getenv)
	if err != nil {
		return nil, nil, err
	}
	secured := &tls.Config{ServerName: e.settings.Host, MinVersion: tls.VersionTLS12}
	if e.settings.CAFile != "" {
		if secured.RootCAs, err = readCertificates(e.settings.CAFile); err != nil {
			return nil, nil, err
		}
	}
	var conn net.Conn
	stop := func() bool { return true }
	options := []mail.Option{
		mail.WithPort(e.settings.Port), mail.WithTimeout(e.settings.Timeout), mail.WithTLSConfig(secured), mail.WithTLSPolicy(mail.TLSMandatory),
		mail.WithDialContextFunc(func(dialing context.Context, network, address string) (net.Conn, error) {
			made, err := (&net.Dialer{}).DialContext(dialing, network, address)
			if err == nil {
				conn = made
				stop = context.AfterFunc(ctx, func() { _ = made.Close() }) // the library's limits are for each step
			}
			return made, err
		}),
	}
	if e.settings.StartTLS == config.StartTLSOff {
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	}
	if user != "" {
		options = append(options, mail.WithUsername(user), mail.WithPassword(password), mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover))
	}
	client, err := mail.NewClient(e.settings.Host, options...)
	return client, func() {
		stop()
		if conn != nil {
			_ = conn.Close()
		}
	}, err
}

func (e *email) send(ctx context.Context, m message) result {
	msg, err := e.mail(m)
	if err != nil {
		return result{problem: err.Error()}
	}
	client, end, err := e.client(ctx)
	if err != nil {
		return result{problem: err.Error()}
	}
	defer end()
	err = client.DialAndSendWithContext(ctx, msg)
	if err == nil || msg.IsDelivered() { // only the farewell failed
		return result{}
	}
	var failed *mail.SendError
	permanent := errors.As(err, &failed) && failed.ErrorCode() >= 500
	return result{problem: e.problem(ctx, err), permanent: permanent}
}

// problem describes an error without secrets. The texts of SMTP servers are not trusted.
func (e *email) problem(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return "the SMTP server did not accept the message within " + e.settings.Timeout.String()
	}
	text := err.Error()
	if _, password, err := e.settings.Login(e.getenv); err == nil && password != "" {
		text = strings.ReplaceAll(text, password, "[secret]")
	}
	return "the SMTP server " + e.settings.Host + " did not accept the message: " + terminal.OneLine(telemetry.Redact(text))
}

// probe connects, encrypts and authenticates, and sends nothing.
func (e *email) probe(ctx context.Context) (string, error) {
	client, end, err := e.client(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	if err := client.DialWithContext(ctx); err != nil {
		return "", problemError(e.problem(ctx, err))
	}
	_ = client.Close()
	text := e.settings.Host + " responds"
	if e.settings.StartTLS != config.StartTLSOff {
		text += " over an encrypted connection"
	}
	if e.settings.UserEnv != "" {
		text += " and accepts the password"
	}
	return text, nil
}

func (e *email) close() {}
