package workspace

import (
	"context"
	"net/url"
	"slices"
)

// credentialHelper gives git the credential in its environment, where other users of the host cannot
// see it.
const credentialHelper = `!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$RGPT_GIT_USER" "$RGPT_GIT_PASSWORD"; }; f`

// withCredential adds to a call the credential for the host that it connects to. Git uses it only if
// that host asks, and gives it to no other one.
func (m *Manager) withCredential(ctx context.Context, c call) (call, error) {
	if m.options.Credential == nil || c.address == "" {
		return c, nil
	}
	u, err := url.Parse(c.address)
	if err != nil || u.Scheme != "https" {
		return c, nil //nolint:nilerr // the short form of ssh is not a URL
	}
	user, password, known, err := m.options.Credential(ctx, c.address)
	if err != nil || !known {
		return c, err
	}
	origin := url.URL{Scheme: u.Scheme, Host: u.Host}
	c.config = append(slices.Clone(c.config), [2]string{"credential." + origin.String() + ".helper", credentialHelper})
	c.env = append(slices.Clone(c.env), "RGPT_GIT_USER="+user, "RGPT_GIT_PASSWORD="+password)
	return c, nil
}
