// Package webhook reads the webhooks that forges send: it verifies that the forge sent them, and
// returns what happened in one form for all forges.
//
// An event says that something changed, not what is true now: deliveries arrive late, repeatedly,
// in any order or never. Who acts on one reads the object from the forge first.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"unicode"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
)

// Limits of deliveries.
const (
	// MaxBody is the maximum size of a delivery.
	MaxBody = 25 << 20
	// maxText is the number of bytes of a comment that are kept, maxName that of names and addresses.
	maxText = 64 << 10
	maxName = 1000
	// maxLabels is the number of labels of an issue or pull request that are kept.
	maxLabels = 100
	// maxDelivery is the number of characters of a delivery's ID.
	maxDelivery = 100
)

// Kind is what happened.
type Kind string

// The kinds of events.
const (
	Ignored  Kind = "ignored"  // nothing that is of interest here
	Pushed   Kind = "pushed"   // commits to a branch, which may be new
	Opened   Kind = "opened"   // an issue or pull request
	Updated  Kind = "updated"  // a pull request has other commits
	Closed   Kind = "closed"   // an issue, or a pull request that was not merged
	Merged   Kind = "merged"   // a pull request
	Reopened Kind = "reopened" // an issue or pull request
	Labelled Kind = "labelled" // an issue or pull request has other labels
	Comment  Kind = "comment"  // on an issue or pull request, or on a line of one
	Reviewed Kind = "reviewed" // a pull request; comments on lines have to be read from the forge
	Check    Kind = "check"    // a status or check of a commit has another state
)

// Event is something that happened on a forge. All texts may have been written by strangers.
type Event struct {
	// Delivery identifies the delivery; one that is repeated has the same.
	Delivery string
	Kind     Kind
	Repo     string // path of the repository
	Sender   string // who did it
	// Subject is the issue or pull request, zero if the event concerns none.
	Subject forge.Subject
	// Label was added, as far as the forge says so. Gitea does not; see Labels.
	Label  string
	Labels []string // all labels that the subject has now
	// Comment is a comment or the text of a review. Of the latter, only the author and the text are
	// known.
	Comment forge.Comment
	Branch  string      // that was pushed to
	Commit  string      // the new head of the branch or pull request, or what a check is about
	Check   forge.Check // without an ID if the forge does not state the one that its API uses
}

// Parse verifies and reads a delivery of a forge. Events that are of no interest have the kind
// Ignored and only a delivery. Errors are a *fault.Error with CodeUnauthorized if the delivery was
// not made with the secret, CodeTooLarge, or CodeBadRequest if it cannot be understood.
func Parse(kind forge.Kind, header http.Header, body []byte, secret string) (Event, error) {
	switch {
	case secret == "":
		return Event{}, refuse(contract.CodeInvalidConfig, "no secret is configured to verify it; set webhook_secret_env or webhook_secret_file of the forge")
	case len(body) > MaxBody:
		return Event{}, refuse(contract.CodeTooLarge, "it has more than %d bytes", MaxBody)
	}
	read := parsers[kind]
	if read.parse == nil {
		return Event{}, refuse(contract.CodeBadRequest, "forges of kind %q send none", kind)
	}
	if !read.verify(header, body, secret) {
		return Event{}, refuse(contract.CodeUnauthorized, "its signature is missing or wrong; set the same secret in the webhook's settings on the forge and in the forge's settings here")
	}
	if media, _, _ := mime.ParseMediaType(header.Get("Content-Type")); media != "application/json" {
		return Event{}, refuse(contract.CodeBadRequest, "its content type is %q; choose application/json in the webhook's settings on the forge", fault.Clip(media, maxDelivery))
	}
	e, err := read.parse(header, body)
	if err != nil {
		return Event{}, refuse(contract.CodeBadRequest, "%s", oneLine(err.Error()))
	}
	delivery := deliveryID(header, body, read.delivery)
	if e.Kind == Ignored {
		return Event{Kind: Ignored, Delivery: delivery}, nil
	}
	if _, _, err := forge.SplitRepository(kind, e.Repo); err != nil {
		return Event{}, refuse(contract.CodeBadRequest, "%s", fault.Of(err).Message)
	}
	e.Delivery = delivery
	e.bound()
	return e, nil
}

func refuse(code contract.Code, format string, args ...any) error {
	return fault.New(contract.ClassConfig, code, "cannot accept the webhook's delivery: "+format, args...)
}

// parser reads the deliveries of one kind of forge.
type parser struct {
	delivery []string // headers with the ID of the delivery, the best first
	verify   func(header http.Header, body []byte, secret string) bool
	parse    func(http.Header, []byte) (Event, error)
}

var parsers = map[forge.Kind]parser{
	forge.GitHub: {[]string{"X-GitHub-Delivery"}, signed("X-Hub-Signature-256", "sha256="), parseGitHub},
	forge.Gitea:  {[]string{"X-Gitea-Delivery", "X-Forgejo-Delivery"}, signed("X-Gitea-Signature", ""), parseGitea},
	forge.GitLab: {[]string{"Idempotency-Key", "X-Gitlab-Event-Uuid"}, tokened("X-Gitlab-Token"), parseGitLab},
}

// signed verifies the HMAC of the body in a header, which follows a prefix in hexadecimal.
func signed(name, prefix string) func(http.Header, []byte, string) bool {
	return func(header http.Header, body []byte, secret string) bool {
		text, found := strings.CutPrefix(header.Get(name), prefix)
		got, err := hex.DecodeString(text)
		if !found || err != nil {
			return false
		}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		return hmac.Equal(got, mac.Sum(nil))
	}
}

// tokened verifies that a header contains the secret. The time that this takes does not depend on
// either, not even on their lengths.
func tokened(name string) func(http.Header, []byte, string) bool {
	return func(header http.Header, _ []byte, secret string) bool {
		got, want := sha256.Sum256([]byte(header.Get(name))), sha256.Sum256([]byte(secret))
		return subtle.ConstantTimeCompare(got[:], want[:]) == 1
	}
}

// deliveryPattern matches the IDs that forges give.
var deliveryPattern = regexp.MustCompile(`^[A-Za-z0-9-]{8,100}$`)

// deliveryID returns the ID of a delivery. Without one, its content identifies it.
func deliveryID(header http.Header, body []byte, names []string) string {
	for _, name := range names {
		if id := header.Get(name); deliveryPattern.MatchString(id) {
			return id
		}
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// decode reads a payload.
func decode(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("its field %s is a %s", wrong.Field, wrong.Value)
	}
	return err
}

// commitPattern matches the full name of a commit.
var commitPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// bound limits texts, and removes what is not a commit.
func (e *Event) bound() {
	e.Labels = e.Labels[:min(len(e.Labels), maxLabels)]
	names := []*string{
		&e.Repo, &e.Sender, &e.Label, &e.Branch, &e.Check.ID, &e.Check.Name, &e.Check.Description, &e.Check.URL,
		&e.Comment.ID, &e.Comment.Thread, &e.Comment.Author, &e.Comment.URL, &e.Comment.Path,
	}
	for i := range e.Labels {
		names = append(names, &e.Labels[i])
	}
	for _, name := range names {
		*name = oneLine(*name)
	}
	e.Comment.Body = strings.ToValidUTF8(fault.Clip(e.Comment.Body, maxText), "�")
	for _, commit := range []*string{&e.Commit, &e.Comment.Commit} {
		if !commitPattern.MatchString(*commit) || strings.Trim(*commit, "0") == "" {
			*commit = ""
		}
	}
}

// oneLine returns a text of limited length without control characters.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(fault.Clip(text, maxName), "�"))
}

// branch returns the name of a pushed branch, "" if a tag was pushed or the branch deleted.
func branch(ref, commit string) string {
	name, ok := strings.CutPrefix(ref, "refs/heads/")
	if !ok || strings.Trim(commit, "0") == "" {
		return ""
	}
	return name
}

// pushed completes the event of a push.
func (e Event) pushed(ref, commit string) Event {
	if e.Branch = branch(ref, commit); e.Branch != "" {
		e.Kind, e.Commit = Pushed, commit
	}
	return e
}
