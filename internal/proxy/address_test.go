package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// forbidden has an address of each kind that is never reached, and the reason.
var forbidden = map[string]class{
	"127.0.0.1": loopback, "127.255.255.254": loopback, "::1": loopback, "::ffff:127.0.0.1": loopback, "::127.0.0.1": loopback,
	"64:ff9b::127.0.0.1": loopback, "2002:7f00:1::": loopback, "::ffff:0:127.0.0.1": loopback,
	"0.0.0.0": unspecified, "0.1.2.3": unspecified, "::": unspecified, "::ffff:0.0.0.0": unspecified,
	"10.0.0.1": private, "172.16.0.1": private, "172.31.255.255": private, "192.168.1.1": private, "fd12:3456::1": private, "fc00::1": private,
	"::ffff:10.0.0.1": private, "64:ff9b::10.0.0.1": private, "64:ff9b::a00:1": private, "2002:a00:1::1": private, "2002:c0a8:101::": private,
	"100.64.0.1": private, "100.127.255.255": private, "64:ff9b::100.64.0.1": private, "198.18.0.1": private,
	"169.254.1.1": linkLocal, "fe80::1": linkLocal, "::ffff:169.254.1.1": linkLocal,
	"169.254.169.254": metadata, "::ffff:169.254.169.254": metadata, "64:ff9b::169.254.169.254": metadata, "2002:a9fe:a9fe::": metadata,
	"fd00:ec2::254": metadata, "fd20:ce::254": metadata, "168.63.129.16": metadata, "100.100.100.200": metadata, "192.0.0.192": metadata, "169.254.170.2": metadata,
	"224.0.0.1": multicast, "239.255.255.250": multicast, "ff02::1": multicast,
	"255.255.255.255": reserved, "240.0.0.1": reserved, "192.0.0.1": reserved, "192.88.99.1": reserved, "100::1": reserved, "64:ff9b:1::1": reserved,
	"2001::1": reserved, "fec0::1": reserved,
}

func TestAddressesAreClassified(t *testing.T) {
	t.Parallel()
	for text, want := range forbidden {
		require.Equal(t, want, classify(netip.MustParseAddr(text)), text)
	}
	for _, text := range []string{
		"1.1.1.1", "203.0.113.80", "192.0.2.1", "198.51.100.7", "172.15.255.255", "172.32.0.1", "100.128.0.1", "11.0.0.1", "169.253.0.1",
		"2606:4700::1111", "2001:db8::1", "64:ff9b::1.1.1.1", "2002:101:101::1", "::ffff:1.1.1.1",
	} {
		require.Equal(t, public, classify(netip.MustParseAddr(text)), text)
	}
}

func TestANameThatLeadsToAForbiddenAddressIsRefused(t *testing.T) {
	t.Parallel()
	b := newProxyFixture(t, "*.example.com")
	n := 0
	for text := range forbidden {
		n++
		b.names.answers[label(n)] = []string{text}
	}
	b.start()
	client := b.client()
	for n > 0 {
		code, body := get(t, client, "http://"+label(n)+"/", nil)
		require.Equal(t, http.StatusForbidden, code, b.names.answers[label(n)])
		require.Contains(t, body, "the name resolves to ")
		_, _, response := b.tunnel(label(n) + ":443")
		require.Equal(t, http.StatusForbidden, response.StatusCode)
		require.Equal(t, RefusedValue, response.Header.Get(RefusedHeader))
		n--
	}
	require.Empty(t, b.dialled)
	for _, r := range b.stop() {
		require.Equal(t, Refused, r.Verdict)
	}
}

func label(n int) string { return string(rune('a'+n/26)) + string(rune('a'+n%26)) + ".example.com" }

func TestTheAddressesOfThisMachineAreRefused(t *testing.T) {
	t.Parallel()
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	b := newProxyFixture(t, "self.example.com")
	b.options.AllowPrivate = []string{"self.example.com"}
	tried := 0
	for _, a := range all {
		addr := netip.MustParsePrefix(a.String()).Addr()
		if class := classify(addr); class != public && class != private {
			continue
		}
		tried++
		b.names.answers["self.example.com"] = append(b.names.answers["self.example.com"], addr.String())
	}
	if tried == 0 {
		t.Skip("this machine has a loopback only")
	}
	b.start()
	for range tried {
		_, _, response := b.tunnel("self.example.com:443")
		require.Equal(t, http.StatusForbidden, response.StatusCode)
	}
	require.Empty(t, b.dialled)
	for _, r := range b.stop() {
		require.Contains(t, r.Reason, string(ownHost))
	}
}

func TestAPrivateAddressIsReachedOnlyWhereTheOperatorSaysSo(t *testing.T) {
	t.Parallel()
	server := plainServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("inside")) })
	b := newProxyFixture(t, "nexus.example.com", "other.example.com")
	b.options.AllowPrivate = []string{"nexus.example.com"}
	b.route("nexus.example.com", "10.200.1.2:80", address(server))
	b.route("other.example.com", "10.200.1.2:80", address(server))
	b.start()
	code, body := get(t, b.client(), "http://nexus.example.com/", nil)
	require.Equal(t, "inside", body)
	require.Equal(t, http.StatusOK, code)
	code, body = get(t, b.client(), "http://other.example.com/", nil)
	require.Equal(t, http.StatusForbidden, code)
	require.Contains(t, body, "environment.network.allow_private")
	b.stop()

	// What is never allowed, whatever the operator writes.
	b = newProxyFixture(t, "*.example.com")
	b.options.AllowPrivate = []string{"*.example.com"}
	n := 0
	for text, class := range forbidden {
		if class != private {
			n++
			b.names.answers[label(n)] = []string{text}
		}
	}
	b.start()
	for ; n > 0; n-- {
		_, _, response := b.tunnel(label(n) + ":443")
		require.Equal(t, http.StatusForbidden, response.StatusCode, b.names.answers[label(n)])
	}
	require.Empty(t, b.dialled)
}

func TestTheCheckedAddressIsTheOneThatIsDialled(t *testing.T) {
	t.Parallel()
	server := plainServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = w.Write([]byte("public"))
	})
	b := newProxyFixture(t, "rebind.example.com")
	b.route("rebind.example.com", "203.0.113.7:80", address(server))
	b.names.answers["rebind.example.com"] = []string{"203.0.113.7", "127.0.0.1", "10.0.0.1,203.0.113.7"}
	b.start()
	client := b.client()
	_, body := get(t, client, "http://rebind.example.com/", nil)
	require.Equal(t, "public", body)
	code, body := get(t, client, "http://rebind.example.com/", nil)
	require.Equal(t, http.StatusForbidden, code)
	require.Contains(t, body, "a loopback address")
	_, body = get(t, client, "http://rebind.example.com/", nil)
	require.Equal(t, "public", body, "of many addresses the good one is taken")
	b.stop()
	require.Equal(t, []string{"203.0.113.7:80", "203.0.113.7:80"}, b.dialled)
	require.Equal(t, 3, b.names.asked["rebind.example.com"], "one look-up for each connection")
}

func TestAddressesInRequestsAreCheckedLikeNames(t *testing.T) {
	t.Parallel()
	server := plainServer(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("by number")) })
	b := newProxyFixture(t, "203.0.113.7", "*.example.com")
	b.routes["203.0.113.7:80"] = address(server)
	b.start()
	_, body := get(t, b.client(), "http://203.0.113.7/", nil)
	require.Equal(t, "by number", body)
	for _, target := range []string{"127.0.0.1:443", "[::1]:443", "169.254.169.254:80", "[::ffff:169.254.169.254]:80", "203.0.113.8:443", "2130706433:80", "0x7f.1:80", "localhost:80", "0:80"} {
		_, _, response := b.tunnel(target)
		require.Equal(t, http.StatusForbidden, response.StatusCode, target)
	}
}
