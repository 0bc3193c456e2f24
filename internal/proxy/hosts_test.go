package proxy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPatternsAllowWhatTheySayAndNothingElse(t *testing.T) {
	t.Parallel()
	hosts, err := ParseHosts([]string{"registry.npmjs.org", "*.Example.COM", "example.net:8443", "bücher.de", "203.0.113.7", "[2001:db8::1]:8443", "trailing.org."})
	require.NoError(t, err)
	for host, want := range map[string]map[uint16]bool{
		"registry.npmjs.org":      {443: true, 80: true, 22: false, 8443: false},
		"REGISTRY.npmjs.org.":     {443: true},
		"xregistry.npmjs.org":     {443: false},
		"a.registry.npmjs.org":    {443: false},
		"npmjs.org":               {443: false},
		"a.example.com":           {443: true},
		"b.a.example.com":         {80: true},
		"example.com":             {443: false},
		"badexample.com":          {443: false},
		"example.com.evil.org":    {443: false},
		"example.net":             {8443: true, 443: false},
		"xn--bcher-kva.de":        {443: true},
		"BÜCHER.de":               {443: true},
		"203.0.113.7":             {443: true},
		"::ffff:203.0.113.7":      {443: true},
		"203.0.113.8":             {443: false},
		"2001:db8::1":             {8443: true, 443: false},
		"2001:DB8:0:0::1":         {8443: true},
		"trailing.org":            {443: true},
		"":                        {443: false},
		"registry.npmjs.org\x00x": {443: false},
		"fe80::1%eth0":            {443: false},
	} {
		for port, allowed := range want {
			require.Equal(t, allowed, hosts.Allows(host, port), "%s:%d", host, port)
		}
	}
}

func TestPatternsThatMeanTooMuchOrNothingAreRefused(t *testing.T) {
	t.Parallel()
	for pattern, says := range map[string]string{
		"":                    "is empty",
		"*":                   "has a misplaced *",
		"*.*.com":             "has a misplaced *",
		"a*.example.com":      "has a misplaced *",
		"*.com":               "covers domains with different owners",
		"*.co.uk":             "covers domains with different owners",
		"*.local":             "covers domains with different owners",
		"https://example.com": "is not a host; expected a name without a scheme",
		"user@example.com":    "is not a host; expected a name without a scheme",
		"example.com/path":    "is not a host; expected a name without a scheme",
		"exa mple.com":        "is not a host",
		"example.com:0":       `has the invalid port "0"`,
		"example.com:70000":   `has the invalid port "70000"`,
		"example.com:https":   `has the invalid port "https"`,
		"example..com":        "is not a valid host name",
		"-a.com":              "is not a valid host name",
		"127.0.0.1":           "is a loopback address",
		"10.1.2.3":            "is a private address",
		"169.254.169.254":     "is a cloud metadata address",
		"::1":                 "is a loopback address",
		"[fd00::1]:443":       "is a private address",
		"127.1":               "is neither a name nor a complete address",
		"2130706433":          "is neither a name nor a complete address",
		"0x7f000001":          "is neither a name nor a complete address",
		"localhost":           "refers to this machine",
		"api.localhost:3000":  "refers to this machine",
	} {
		_, err := ParseHosts([]string{"example.org", pattern})
		require.ErrorContains(t, err, says, pattern)
		require.ErrorContains(t, err, `"`+pattern+`"`, "the error names the pattern")
	}
}

func TestAListCoversWhatItAllows(t *testing.T) {
	t.Parallel()
	operator, err := ParseHosts([]string{"*.example.com", "registry.npmjs.org", "pypi.org:8443", "pypi.org"})
	require.NoError(t, err)
	for pattern, covered := range map[string]bool{
		"a.example.com": true, "*.example.com": true, "*.a.example.com": true, "a.example.com:443": true, "a.example.com:22": false,
		"example.com": false, "*.npmjs.org": false, "registry.npmjs.org:80": true, "pypi.org:8443": true, "pypi.org:80": true, "evil.org": false,
	} {
		hosts, err := ParseHosts([]string{pattern})
		require.NoError(t, err)
		require.Equal(t, covered, operator.Covers(hosts), pattern)
	}
	require.True(t, operator.Covers(nil))
	require.False(t, Hosts(nil).Covers(operator))
}

func FuzzParseHosts(f *testing.F) {
	for _, seed := range []string{"*.example.com:1", "[::1]", "bücher.de", "1.2.3.4:5", "xn--", "a_b.c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		hosts, err := ParseHosts([]string{pattern})
		if err != nil {
			return
		}
		require.True(t, hosts.Covers(hosts), "a pattern covers itself")
		require.False(t, hosts.Allows("127.0.0.1", 443))
		require.False(t, hosts.Allows("localhost", 443))
	})
}
