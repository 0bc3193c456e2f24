package config

import (
	"fmt"
	"net/url"
	"slices"
	"time"
)

// The kinds of notification channels.
const (
	ChannelSlack = "slack"
	ChannelEmail = "email"
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
	Kind    string        `yaml:"kind" validate:"required,oneof=slack email" doc:"slack: an incoming webhook of Slack, Mattermost or a compatible service. email: messages by SMTP."`
	URLEnv  string        `yaml:"url_env" secret:"true" validate:"omitempty,envname" doc:"Name of the environment variable that contains the address of the incoming webhook, for slack. The address is a secret. Private addresses need server.webhooks.allow_private."`
	URLFile string        `yaml:"url_file" doc:"File that contains this address. It is read again for each message. Overrides url_env."`
	Timeout time.Duration `yaml:"timeout" default:"30s" validate:"min=1s,max=5m" doc:"Maximum duration of one attempt to send a message."`

	Host         string   `yaml:"host" validate:"omitempty,host" doc:"Host name of the SMTP server, for email." example:"smtp.example.com"`
	Port         int      `yaml:"port" default:"587" validate:"min=1,max=65535" doc:"Port of the SMTP server."`
	StartTLS     string   `yaml:"starttls" default:"required" validate:"oneof=required off" doc:"required: messages are sent only over a connection that STARTTLS has encrypted, to a server with a valid certificate. off: without encryption and without a password, for a server on the same host."`
	CAFile       string   `yaml:"ca_file" doc:"PEM file with the trusted CA certificates of the SMTP server. Empty: the system's certificates."`
	UserEnv      string   `yaml:"user_env" validate:"omitempty,envname" secret:"true" doc:"Name of the environment variable that contains the user name at the SMTP server. Empty: no authentication."`
	PasswordEnv  string   `yaml:"password_env" secret:"true" validate:"omitempty,envname" doc:"Name of the environment variable that contains the password."`
	PasswordFile string   `yaml:"password_file" doc:"File that contains the password. It is read again for each message. Overrides password_env."`
	From         string   `yaml:"from" validate:"omitempty,address,max=254" doc:"E-mail address of the sender." example:"rgpt@example.com"`
	To           []string `yaml:"to" validate:"max=50,dive,address,max=254" doc:"E-mail addresses of the recipients. A message is sent to all of them or, if the server refuses one, to none." example:"[team@example.com]"`

	On       []string      `yaml:"on" validate:"max=4,dive,oneof=waits failed done budget" doc:"What the channel is notified of. waits: a run waits for an approval, an answer or help. failed: a run failed; not if it was cancelled. done: a run released its change, or ended without one as requested. budget: a budget is nearly or completely used up. Empty: all." example:"[waits, failed]"`
	Projects []string      `yaml:"projects" validate:"max=100,dive,required,max=200" doc:"Patterns of the projects whose runs the channel is notified of. * stands for any text. Empty: all." example:"[app, \"team-*\"]"`
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
	}
	switch {
	case n.UserEnv != "" && n.StartTLS == StartTLSOff:
		add(key+".starttls", "must be required, because user_env is set and a password is sent only over an encrypted connection")
	case n.UserEnv != "" && n.PasswordEnv+n.PasswordFile == "":
		add(key+".password_env", "is missing; user_env requires it")
	case n.UserEnv == "" && n.PasswordEnv+n.PasswordFile != "":
		add(key+".user_env", "is missing; a password requires it")
	}
	q := n.Quiet
	if (q.From == "") != (q.To == "") || q.From != "" && q.From == q.To {
		add(key+".quiet", "expected two different times of day, from and to")
	}
	if _, err := time.LoadLocation(q.Zone); err != nil || q.Zone == "Local" {
		add(key+".quiet.zone", fmt.Sprintf("expected a time zone such as Europe/Berlin, got %q", q.Zone))
	}
}
