package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// Resolver finds the addresses of a name; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// class describes the kind of an address in the words of a refusal.
type class string

const (
	public      class = ""
	loopback    class = "a loopback address"
	private     class = "a private address" // the only class that Options.AllowPrivate allows
	linkLocal   class = "a link-local address"
	multicast   class = "a multicast address"
	unspecified class = "not a host address"
	reserved    class = "a reserved address"
	metadata    class = "a cloud metadata address"
	ownHost     class = "one of the worker host's own addresses"
)

// ranges are searched in order: narrower ones come first. The ranges for documentation are not
// included: they contain no useful hosts, and some networks route them.
var ranges = []struct {
	prefix netip.Prefix
	class  class
}{
	{netip.MustParsePrefix("169.254.169.254/32"), metadata}, // most clouds
	{netip.MustParsePrefix("169.254.170.2/32"), metadata},   // AWS, task credentials
	{netip.MustParsePrefix("168.63.129.16/32"), metadata},   // Azure, in a public range
	{netip.MustParsePrefix("100.100.100.200/32"), metadata}, // Alibaba
	{netip.MustParsePrefix("192.0.0.192/32"), metadata},     // Oracle
	{netip.MustParsePrefix("fd00:ec2::/32"), metadata},      // AWS: metadata, DNS, time
	{netip.MustParsePrefix("fd20:ce::254/128"), metadata},   // Google
	{netip.MustParsePrefix("fe80::a9fe:a9fe/128"), metadata},

	{netip.MustParsePrefix("0.0.0.0/8"), unspecified},
	{netip.MustParsePrefix("127.0.0.0/8"), loopback},
	{netip.MustParsePrefix("10.0.0.0/8"), private},
	{netip.MustParsePrefix("172.16.0.0/12"), private},
	{netip.MustParsePrefix("192.168.0.0/16"), private},
	{netip.MustParsePrefix("100.64.0.0/10"), private}, // behind a provider's NAT
	{netip.MustParsePrefix("198.18.0.0/15"), private}, // benchmarks; in practice used inside networks
	{netip.MustParsePrefix("169.254.0.0/16"), linkLocal},
	{netip.MustParsePrefix("192.0.0.0/24"), reserved},
	{netip.MustParsePrefix("192.88.99.0/24"), reserved}, // relays of 6to4
	{netip.MustParsePrefix("224.0.0.0/4"), multicast},
	{netip.MustParsePrefix("240.0.0.0/4"), reserved}, // and broadcast

	{netip.MustParsePrefix("::/128"), unspecified},
	{netip.MustParsePrefix("::1/128"), loopback},
	{netip.MustParsePrefix("100::/64"), reserved},       // discarded
	{netip.MustParsePrefix("64:ff9b:1::/48"), reserved}, // NAT64 of a site: the embedded address cannot be determined
	{netip.MustParsePrefix("2001::/32"), reserved},      // Teredo
	{netip.MustParsePrefix("fc00::/7"), private},
	{netip.MustParsePrefix("fe80::/10"), linkLocal},
	{netip.MustParsePrefix("fec0::/10"), reserved}, // site-local, abolished
	{netip.MustParsePrefix("ff00::/8"), multicast},
}

// embeddedIPv4 are IPv6 ranges whose addresses contain, at that byte, the IPv4 address to which
// they lead.
var embeddedIPv4 = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("::/96"), 12},           // IPv4-compatible
	{netip.MustParsePrefix("::ffff:0:0/96"), 12},   // IPv4-mapped
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // IPv4-translated
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4
}

// classify returns the class of an address, or of the IPv4 address embedded in it.
func classify(addr netip.Addr) class {
	addr = addr.Unmap().WithZone("")
	for _, r := range ranges {
		if r.prefix.Contains(addr) {
			return r.class
		}
	}
	for _, c := range embeddedIPv4 {
		if c.prefix.Contains(addr) {
			b := addr.As16()
			return classify(netip.AddrFrom4([4]byte(b[c.at : c.at+4])))
		}
	}
	return public
}

func publicAddress(addr netip.Addr) error {
	if class := classify(addr); class != public {
		return fmt.Errorf("is %s, which is always blocked; expected a name or a public address", class)
	}
	return nil
}

// hostAddresses returns the addresses of this machine's interfaces, where the worker's own services
// listen.
func hostAddresses() (map[netip.Addr]bool, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list this machine's addresses: %w", err)
	}
	own := map[netip.Addr]bool{}
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			own[prefix.Addr().Unmap().WithZone("")] = true
		}
	}
	return own, nil
}

// refusedError reports that a host has no allowed address.
type refusedError struct{ reason string }

func (e *refusedError) Error() string { return e.reason }

// addresses resolves a host and returns its allowed addresses.
func (p *Proxy) addresses(ctx context.Context, host string, port uint16) ([]netip.Addr, error) {
	found, err := p.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	own, err := hostAddresses()
	if err != nil {
		return nil, err
	}
	mayBePrivate := p.private.Allows(host, port)
	var good []netip.Addr
	refused := public
	for _, addr := range found {
		addr = addr.Unmap().WithZone("")
		class := classify(addr)
		if own[addr] && class != loopback {
			class = ownHost
		}
		if class == public || class == private && mayBePrivate {
			good = append(good, addr)
		} else if refused == public {
			refused = class
		}
	}
	if len(good) > 0 {
		return good, nil
	}
	reason := fmt.Sprintf("the name resolves to %s", refused)
	if refused == private {
		reason += "; the operator can allow this with environment.network.allow_private"
	}
	return nil, &refusedError{reason}
}

func (p *Proxy) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	found, err := p.options.Resolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(found) == 0 {
		err = errors.New("the name does not resolve to an address")
	}
	return found, err
}
