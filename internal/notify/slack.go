package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/outbound"
	"github.com/rocketgpt/orchestrator/internal/version"
)

// Limits of Slack.
const (
	maxHeader  = 150
	maxSection = 3000
)

// slack sends to an incoming webhook of Slack or a compatible service.
type slack struct {
	settings config.Notification
	private  bool // private addresses are allowed
	getenv   func(string) string
	client   *http.Client
}

func newSlack(s config.Notification, hooks config.Webhooks, getenv func(string) string) *slack {
	return &slack{s, hooks.AllowPrivate, getenv, outbound.NewClient(outbound.Options{Timeout: s.Timeout, AllowPrivate: hooks.AllowPrivate, Idle: 1})}
}

// slackText is a text of a block. Type plain_text shows it as it is: without formatting, mentions and
// links.
type slackText struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Emoji *bool  `json:"emoji,omitempty"`
}

type slackBlock struct {
	Type     string      `json:"type"`
	Text     *slackText  `json:"text,omitempty"`
	Elements []slackText `json:"elements,omitempty"`
}

type slackMessage struct {
	Text        string       `json:"text"`
	Blocks      []slackBlock `json:"blocks,omitempty"`
	UnfurlLinks bool         `json:"unfurl_links"`
	UnfurlMedia bool         `json:"unfurl_media"`
}

// slackEscapes are those that Slack asks for. They end every mention and link in its own notation.
var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// inCode shows a text as code, in which neither Slack nor Markdown know mentions, links or formatting.
func inCode(text string) string {
	return "`" + slackEscapes.Replace(strings.ReplaceAll(text, "`", "'")) + "`"
}

func plain(text string, most int) *slackText {
	text = slackEscapes.Replace(text)
	if r := []rune(text); len(r) > most {
		text = string(r[:most-1]) + "…"
	}
	return &slackText{Type: "plain_text", Text: text, Emoji: new(bool)}
}

// slackPayload returns the body of a message. Slack shows the blocks; services that do not know blocks,
// such as Mattermost, show the text, as Markdown.
func slackPayload(m message) slackMessage {
	out := slackMessage{Blocks: []slackBlock{{Type: "header", Text: plain(m.title, maxHeader)}}}
	lines := []string{m.title}
	for _, i := range m.items {
		var shown []string
		if len(m.items) > 1 {
			shown = append(shown, i.headline)
		}
		for _, f := range i.facts {
			shown = append(shown, f.name+": "+f.text)
		}
		out.Blocks = append(out.Blocks, slackBlock{Type: "section", Text: plain(strings.Join(shown, "\n"), maxSection)})
		var actions []string
		if i.link != "" {
			actions = append(actions, "<"+slackEscapes.Replace(i.link)+"|Open the "+i.page+">")
		}
		if i.command != "" {
			actions = append(actions, "`"+i.command+"`")
		}
		if len(actions) > 0 {
			out.Blocks = append(out.Blocks, slackBlock{Type: "context", Elements: []slackText{{Type: "mrkdwn", Text: strings.Join(actions, "  ")}}})
		}
		text := i.lines(inCode)
		if len(m.items) == 1 {
			text = text[1:]
		}
		lines = append(lines, strings.Join(text, "\n"))
	}
	if rest := m.rest(); rest != "" {
		out.Blocks = append(out.Blocks, slackBlock{Type: "section", Text: plain(rest, maxSection)})
		lines = append(lines, rest)
	}
	out.Text = strings.Join(lines, "\n")
	return out
}

func (s *slack) send(ctx context.Context, m message) result {
	address, err := s.settings.Address(s.getenv)
	if err != nil {
		return result{problem: err.Error()}
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(slackPayload(m)); err != nil {
		return result{problem: "cannot write the message: " + err.Error(), permanent: true}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, &body)
	if err != nil {
		return result{problem: "the address of the incoming webhook cannot be used"} // the error contains it
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "rgpt/"+version.Version)
	resp, err := s.client.Do(req)
	if err != nil {
		return result{problem: outbound.Unanswered(err, s.settings.Timeout)}
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, outbound.MaxResponse)) // a receiver's text is not shown
	out := result{problem: outbound.Problem(resp.StatusCode)}
	if out.problem == "" {
		return out
	}
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		out.permanent = true // it would refuse the same message again
	}
	out.retryAfter = outbound.RetryAfter(resp.Header.Get("Retry-After"), time.Now())
	return out
}

// probe connects to the service, without a request.
func (s *slack) probe(ctx context.Context) (string, error) {
	address, err := s.settings.Address(s.getenv)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", errAddress
	}
	port := u.Port()
	if port == "" {
		port = u.Scheme // its name is also that of the port
	}
	conn, err := dialEncrypted(ctx, outbound.Dialer(outbound.Options{Timeout: s.settings.Timeout, AllowPrivate: s.private}), u.Scheme == "https", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return "", problemError(outbound.Unanswered(err, s.settings.Timeout))
	}
	_ = conn.Close()
	return u.Hostname() + " can be reached", nil
}

func (s *slack) close() { s.client.CloseIdleConnections() }
