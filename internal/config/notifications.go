package config

import (
	"crypto/ecdh"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
)

// The kinds of notification channels.
const (
	ChannelSlack = "slack"
	ChannelEmail = "email"
	ChannelPush  = "push"
)

// The values of Notification.On: what a notification is about.
const (
	NotifyWaits  = "waits"
	NotifyFailed = "failed"
	NotifyDone   = "done"
	NotifyBudget = "budget"
)

// NotifyKinds returns everything that a notification can be about.
func NotifyKinds() []string { return []string{NotifyWaits, NotifyFailed, NotifyDone, NotifyBudget} }

// StartTLSOff is the value of Notification.StartTLS for connections without encryption.
const StartTLSOff = "off"

// Notification is a channel to people: they are notified of what happens to runs. Only the operator's
// configuration has channels.
type Notification struct {
	Kind    string        `yaml:"kind" validate:"required,oneof=slack email push" doc:"slack: an incoming webhook of Slack, Mattermost or a compatible service. email: messages by SMTP. push: browsers whose users subscribe in the dashboard; there can be one such channel."`
	URLEnv  string        `yaml:"url_env" secret:"true" validate:"omitempty,envname" doc:"Name of the environment variable that contains the address of the incoming webhook, for slack. The address is a secret. Private addresses need server.webhooks.allow_private."`
	URLFile string        `yaml:"url_file" doc:"File that contains this address. It is read again for each message. Overrides url_env."`
	Timeout time.Duration `yaml:"timeout" default:"30s" validate:"min=1s,max=5m" doc:"Maximum duration of one attempt to send a message."`

	Host         string   `yaml:"host" validate:"omitempty,host" doc:"Host name of the SMTP server, for email." example:"smtp.example.com"`
	Port         int      `yaml:"port" default:"587" validate:"min=1,max=65535" doc:"Port of the SMTP server."`
	StartTLS     string   `yaml:"starttls" default:"required" validate:"oneof=required off" doc:"required: messages are sent only over a connection that STARTTLS has encrypted, to a server with a valid certificate. off: without encryption and without a password, for a server on the same host."`
	CAFile       string   `yaml:"ca_file" doc:"PEM file with the trusted CA certificates of the SMTP server or the push services. Empty: the system's certificates."`
	UserEnv      string   `yaml:"user_env" validate:"omitempty,envname" secret:"true" doc:"Name of the environment variable that contains the user name at the SMTP server. Empty: no authentication."`
	PasswordEnv  string   `yaml:"password_env" secret:"true" validate:"omitempty,envname" doc:"Name of the environment variable that contains the password."`
	PasswordFile string   `yaml:"password_file" doc:"File that contains the password. It is read again for each message. Overrides password_env."`
	From         string   `yaml:"from" validate:"omitempty,address,max=254" doc:"E-mail address of the sender." example:"rgpt@example.com"`
	To           []string `yaml:"to" validate:"max=50,dive,address,max=254" doc:"E-mail addresses of the recipients. A message is sent to all of them or, if the server refuses one, to none." example:"[team@example.com]"`

	KeyEnv      string   `yaml:"key_env" secret:"true" validate:"omitempty,envname" doc:"Name of the environment variable that contains the private key (VAPID) with which the server identifies itself to push services, for push. rgpt notification keys makes one. With another key, all browsers must subscribe again."`
	KeyFile     string   `yaml:"key_file" doc:"File that contains this key. It is read again for each message. Overrides key_env."`
	Contact     string   `yaml:"contact" validate:"omitempty,contact,max=254" doc:"E-mail address or https URL at which push services reach the operator. Empty: server.url, if it is an https URL." example:"ops@example.com"`
	Services    []string `yaml:"services" validate:"max=50,dive,servicehost,max=253" doc:"Hosts of the push services that browsers may name, with a port unless it is 443. * stands for any text. Empty: those of Chrome, Edge, Firefox and Safari." example:"[fcm.googleapis.com, \"*.push.services.mozilla.com\"]"`
	MaxBrowsers int      `yaml:"max_browsers" default:"200" validate:"min=1,max=1000" doc:"Maximum number of browsers that are subscribed."`
	PerPerson   int      `yaml:"per_person" default:"10" validate:"min=1,max=100" doc:"Maximum number of browsers of a person with a name."`

	On       []string      `yaml:"on" validate:"max=4,dive,oneof=waits failed done budget" doc:"What the channel is notified of. waits: a run waits for an approval, an answer or help. failed: a run failed; not if it was cancelled. done: a run released its change, or ended without one as requested. budget: a budget is nearly or completely used up. Empty: all." example:"[waits, failed]"`
	Projects []string      `yaml:"projects" validate:"max=100,dive,required,max=200" doc:"Patterns of the projects whose runs the channel is notified of. * stands for any text. Empty: all." example:"[app, \"team-*\"]"`
	Creators []string      `yaml:"created_by" validate:"max=100,dive,required,max=200" doc:"Names of the people whose runs the channel is notified of, as they gave them when they created the runs. Upper and lower case do not matter. Empty: all runs." example:"[ada, bob]"`
	Digest   time.Duration `yaml:"digest" validate:"min=0,max=24h" doc:"How long notifications are collected, from the first one on, to be sent as one message. 0: each is sent at once." example:"15m"`
	Quiet    Quiet         `yaml:"quiet" doc:"Hours in which nothing is sent. What happens then is sent afterwards, as one message." example:"{from: \"22:00\", to: \"07:00\", zone: Europe/Berlin, except: [waits]}"`
	PerHour  int           `yaml:"per_hour" default:"20" validate:"min=1,max=1000" doc:"Maximum number of messages per hour. More notifications are collected and sent as one message; none is lost."`
}

// Quiet are hours in which a channel sends nothing.
type Quiet struct {
	From   string   `yaml:"from" validate:"omitempty,clock" doc:"Time of day when they begin." example:"\"22:00\""`
	To     string   `yaml:"to" validate:"omitempty,clock" doc:"Time of day when they end. It may be on the next day." example:"\"07:00\""`
	Zone   string   `yaml:"zone" default:"UTC" validate:"max=64" doc:"Time zone of both, such as Europe/Berlin."`
	Except []string `yaml:"except" validate:"max=4,dive,oneof=waits failed done budget" doc:"What is sent nevertheless." example:"[waits]"`
}

// clockFormat is the format of times of day.
const clockFormat = "15:04"

func isClock(s string) bool {
	at, err := time.Parse(clockFormat, s)
	return err == nil && at.Format(clockFormat) == s
}

// Minutes returns the beginning and the end as minutes of the day; ok is false without quiet
// hours.
func (q Quiet) Minutes() (from, to int, ok bool) {
	a, err := time.Parse(clockFormat, q.From)
	b, err2 := time.Parse(clockFormat, q.To)
	if err != nil || err2 != nil {
		return 0, 0, false
	}
	return a.Hour()*60 + a.Minute(), b.Hour()*60 + b.Minute(), true
}

// Wants returns what the channel is notified of.
func (n Notification) Wants() []string {
	if len(n.On) == 0 {
		return NotifyKinds()
	}
	return n.On
}

// Address reads the address of the incoming webhook. getenv is usually os.Getenv. The error never
// contains it.
func (n Notification) Address(getenv func(string) string) (string, error) {
	text, err := readSecret("address of the incoming webhook", n.URLEnv, n.URLFile, getenv)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(text)
	if err != nil || !slices.Contains([]string{"http", "https"}, u.Scheme) || u.Hostname() == "" || u.User != nil {
		return "", fmt.Errorf("the address of the incoming webhook must be an http or https URL with a host and without a user")
	}
	return text, nil
}

// pushServices are the push services of Chrome, Edge, Firefox and Safari.
var pushServices = []string{"fcm.googleapis.com", "*.push.services.mozilla.com", "*.notify.windows.com", "*.push.apple.com"}

// Serves reports whether browsers may name a push service with this host, which has a port unless it is 443.
func (n Notification) Serves(host string) bool {
	allowed := n.Services
	if len(allowed) == 0 {
		allowed = pushServices
	}
	return slices.ContainsFunc(allowed, func(pattern string) bool {
		ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(host))
		return ok && err == nil
	})
}

func isServiceHost(s string) bool {
	_, err := path.Match(s, "")
	return err == nil && s != "" && !strings.ContainsAny(s, "/@ \t\r\n")
}

func isContact(s string) bool {
	return addressPattern.MatchString(s) || isURL(s, "https")
}

// vapidKey is the number of bytes of a private key.
const vapidKey = 32

// Key reads the private key of the server for push services. getenv is usually os.Getenv. The error never
// contains it.
func (n Notification) Key(getenv func(string) string) (*ecdh.PrivateKey, error) {
	const what = "private key for push services"
	text, err := readSecret(what, n.KeyEnv, n.KeyFile, getenv)
	if err != nil {
		return nil, err
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err == nil && len(raw) == vapidKey {
		if key, err := ecdh.P256().NewPrivateKey(raw); err == nil {
			return key, nil
		}
	}
	return nil, fmt.Errorf("the %s must be %d bytes in base64 (URL alphabet), as rgpt notification keys prints them", what, vapidKey)
}

// Login reads the user name and the password for the SMTP server; both are empty if there is no
// authentication. The error never contains them.
func (n Notification) Login(getenv func(string) string) (user, password string, err error) {
	if n.UserEnv == "" {
		return "", "", nil
	}
	if user, err = readSecret("user name", n.UserEnv, "", getenv); err != nil {
		return "", "", err
	}
	password, err = readSecret("password", n.PasswordEnv, n.PasswordFile, getenv)
	return user, password, err
}

// secrets adds the channel's secret values that can be read.
func (n Notification) secrets(getenv func(string) string, add func(string)) {
	if address, err := n.Address(getenv); err == nil {
		add(address)
		if u, err := url.Parse(address); err == nil && len(u.Path) >= minKeyLine { // clients may print it alone
			add(u.Path)
		}
	}
	if _, password, err := n.Login(getenv); err == nil {
		add(password)
	}
	if key, err := n.Key(getenv); err == nil {
		add(base64.RawURLEncoding.EncodeToString(key.Bytes()))
	}
}

// problems reports settings of a channel that contradict each other. key is that of the channel.
func (n Notification) problems(key string, add func(key, problem string)) {
	needed := func(name string, given bool) {
		if !given {
			add(key+"."+name, fmt.Sprintf("is missing; channels of kind %q need it", n.Kind))
		}
	}
	switch n.Kind {
	case ChannelSlack:
		needed("url_env", n.URLEnv+n.URLFile != "")
	case ChannelEmail:
		needed("host", n.Host != "")
		needed("from", n.From != "")
		needed("to", len(n.To) > 0)
	case ChannelPush:
		needed("key_env", n.KeyEnv+n.KeyFile != "")
	}
	switch {
	case n.UserEnv != "" && n.StartTLS == StartTLSOff:
		add(key+".starttls", "must be required, because user_env is set and a password is sent only over an encrypted connection")
	case n.UserEnv != "" && n.PasswordEnv+n.PasswordFile == "":
		add(key+".password_env", "is missing; user_env requires it")
	case n.UserEnv == "" && n.PasswordEnv+n.PasswordFile != "":
		add(key+".user_env", "is missing; a password requires it")
	}
	if field, problem := n.Quiet.problem(); problem != "" {
		add(key+".quiet"+field, problem)
	}
}

// problem describes what is wrong with quiet hours, and the field below them that has it; empty if
// nothing is.
func (q Quiet) problem() (field, problem string) {
	if (q.From == "") != (q.To == "") || q.From != "" && q.From == q.To {
		return "", "expected two different times of day, from and to"
	}
	if _, err := time.LoadLocation(q.Zone); err != nil || q.Zone == "Local" {
		return ".zone", fmt.Sprintf("expected a time zone such as Europe/Berlin, got %q", q.Zone)
	}
	return "", ""
}

// Valid returns an error that says what is wrong with quiet hours that do not come from a configuration.
func (q Quiet) Valid() error {
	for _, at := range []string{q.From, q.To} {
		if at != "" && !isClock(at) {
			return fmt.Errorf("expected a time of day such as 22:00, got %q", at)
		}
	}
	for _, kind := range q.Except {
		if !slices.Contains(NotifyKinds(), kind) {
			return fmt.Errorf("except: expected one of %s, got %q", strings.Join(NotifyKinds(), ", "), kind)
		}
	}
	if _, problem := q.problem(); problem != "" {
		return errors.New(problem)
	}
	return nil
}

// channelProblems reports what is wrong with all channels together.
func (c *Config) channelProblems(add func(key, problem string)) {
	push := ""
	for _, name := range slices.Sorted(maps.Keys(c.Notifications)) {
		n := c.Notifications[name]
		n.problems("notifications."+name, add)
		if n.Kind != ChannelPush {
			continue
		}
		if push != "" {
			add("notifications."+name+".kind", "only one channel can be of the kind push; "+push+" is, too")
		}
		push = name
	}
}
