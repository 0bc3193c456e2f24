package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// defaultPorts are the ports of a pattern without a port.
var defaultPorts = []uint16{443, 80}

// maxHostBytes is the length of the longest DNS name.
const maxHostBytes = 253

// Hosts is a list of patterns of allowed hosts. The zero value allows none.
type Hosts []hostPattern

// hostPattern is one entry of the list.
type hostPattern struct {
	name  string     // lower case, ASCII; without the "*." of a wildcard
	wild  bool       // any name below name, but not name itself
	addr  netip.Addr // set if the pattern is an address
	ports []uint16
}

// ParseHosts reads patterns: a name such as packages.example.com, a wildcard such as *.example.com,
// which means every name below example.com but not that name itself, or a public address. A port
// may follow, as in example.com:8443; without one, the ports 443 and 80 are allowed. Names may be
// in any case and contain letters of any language. The error names the pattern and describes valid
// ones.
func ParseHosts(patterns []string) (Hosts, error) {
	hosts := make(Hosts, 0, len(patterns))
	for _, text := range patterns {
		p, err := parsePattern(text)
		if err == nil && p.addr.IsValid() {
			err = publicAddress(p.addr)
		}
		if err != nil {
			return nil, fmt.Errorf("host %q: %w", text, err)
		}
		hosts = append(hosts, p)
	}
	return hosts, nil
}

// CheckPrivate validates a pattern of Options.AllowPrivate.
func CheckPrivate(pattern string) error {
	_, err := parsePrivate([]string{pattern})
	return err
}

// parsePrivate parses the patterns of hosts that may have private addresses.
func parsePrivate(patterns []string) (Hosts, error) {
	hosts := make(Hosts, 0, len(patterns))
	for _, text := range patterns {
		p, err := parsePattern(text)
		if err == nil && p.addr.IsValid() {
			err = errors.New("is an address; expected a name that resolves to it, because hosts are reached only by name")
		}
		if err != nil {
			return nil, fmt.Errorf("host %q: %w", text, err)
		}
		hosts = append(hosts, p)
	}
	return hosts, nil
}

func parsePattern(text string) (p hostPattern, err error) {
	switch {
	case text == "":
		return p, fmt.Errorf("is empty; expected a host such as packages.example.com")
	case strings.ContainsAny(text, "/@ \t\r\n"):
		return p, fmt.Errorf("is not a host; expected a name without a scheme, user or path, such as packages.example.com or example.com:8443")
	}
	host, ports, err := splitPattern(text)
	if err != nil {
		return p, err
	}
	p.ports = ports
	if addr, err := netip.ParseAddr(host); err == nil {
		p.addr, p.name = addr.Unmap().WithZone(""), addr.Unmap().WithZone("").String()
		return p, nil
	}
	if rest, ok := strings.CutPrefix(host, "*."); ok {
		host, p.wild = rest, true
	}
	if strings.Contains(host, "*") {
		return p, fmt.Errorf("has a misplaced *; expected a name such as example.com or *.example.com")
	}
	if p.name, err = asciiName(host); err != nil {
		return p, err
	}
	if p.name == "localhost" || strings.HasSuffix(p.name, ".localhost") {
		return p, fmt.Errorf("refers to this machine, which the proxy always blocks")
	}
	if p.wild {
		err = wildcardName(p.name)
	}
	return p, err
}

// wildcardName rejects wildcards over names that belong to many owners.
func wildcardName(name string) error {
	suffix, icann := publicsuffix.PublicSuffix(name)
	if !strings.Contains(name, ".") || icann && suffix == name {
		return fmt.Errorf("covers domains with different owners; expected a single owner's domain, as in *.example.com")
	}
	return nil
}

// splitPattern splits a pattern into its host and ports.
func splitPattern(text string) (string, []uint16, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.String(), defaultPorts, nil
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			return inner, defaultPorts, nil
		}
	}
	if !strings.Contains(text, ":") {
		return text, defaultPorts, nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", nil, fmt.Errorf("is not a host; expected a name or address, with an optional port, such as example.com:8443 or [2001:db8::1]:443")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", nil, fmt.Errorf("has the invalid port %q; expected a number from 1 to 65535", port)
	}
	return host, []uint16{uint16(n)}, nil
}

// lookupProfile is the registration profile, but allows names that work in practice, such as names
// with an underscore.
var lookupProfile = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.StrictDomainName(false))

// asciiName converts a name to the form used for lookup and comparison.
func asciiName(host string) (string, error) {
	// A non-ASCII letter takes up to four bytes. The length is limited because the conversion takes
	// quadratic time and clients choose the name.
	if len(host) > 4*maxHostBytes {
		return "", fmt.Errorf("is not a valid host name; expected 1 to %d characters", maxHostBytes)
	}
	name, err := lookupProfile.ToASCII(strings.TrimSuffix(host, "."))
	if err != nil {
		return "", fmt.Errorf("is not a valid host name: %w", err)
	}
	name = strings.ToLower(name)
	if len(name) == 0 || len(name) > maxHostBytes {
		return "", fmt.Errorf("is not a valid host name; expected 1 to %d characters", maxHostBytes)
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if !validLabel(label) {
			return "", fmt.Errorf("is not a valid host name; expected labels made up of letters, digits, - and _, separated by dots")
		}
	}
	// Some libraries read a name that ends in a number as an address, in forms such as 127.1,
	// 0x7f000001 and 017700000001.
	if last := labels[len(labels)-1]; isNumber(last) {
		return "", fmt.Errorf("is neither a name nor a complete address; expected four numbers separated by dots, or a name")
	}
	return name, nil
}

func isNumber(label string) bool {
	return strings.Trim(label, "0123456789") == "" ||
		strings.HasPrefix(label, "0x") && strings.Trim(label[2:], "0123456789abcdef") == ""
}

func validLabel(label string) bool {
	if label == "" || len(label) > 63 || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
		return false
	}
	for _, r := range label {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return false
		}
	}
	return true
}

// Allows reports whether a host, a name or an address, may be reached on a port.
func (h Hosts) Allows(host string, port uint16) bool {
	name, err := canonical(host)
	return err == nil && slices.ContainsFunc(h, func(p hostPattern) bool {
		return p.matches(name) && slices.Contains(p.ports, port)
	})
}

// Covers reports whether h allows everything that other allows.
func (h Hosts) Covers(other Hosts) bool {
	return !slices.ContainsFunc(other, func(o hostPattern) bool {
		return slices.ContainsFunc(o.ports, func(port uint16) bool {
			return !slices.ContainsFunc(h, func(p hostPattern) bool { return p.covers(o) && slices.Contains(p.ports, port) })
		})
	})
}

// covers compares two patterns without their ports.
func (p hostPattern) covers(o hostPattern) bool {
	if o.wild {
		return p.wild && (p.name == o.name || strings.HasSuffix(o.name, "."+p.name))
	}
	return p.matches(o.name)
}

func (p hostPattern) matches(name string) bool {
	if p.wild {
		return strings.HasSuffix(name, "."+p.name)
	}
	return p.name == name
}

// canonical returns the form of a host that is compared with patterns.
func canonical(host string) (string, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return "", fmt.Errorf("an address with a zone is valid on only one machine")
		}
		return addr.Unmap().String(), nil
	}
	return asciiName(host)
}
