package middleware

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
)

// HostCheck rejects requests whose Host header names another server (DNS rebinding).
func HostCheck(next http.Handler, hosts []string, fail Fail) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allowedHost(r, hosts) {
			fail(w, r, apitypes.Problem{
				Title: "Unrecognized Host header", Status: http.StatusMisdirectedRequest,
				Detail: "Use localhost, or add the host to server.allowed_hosts.",
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// allowedHost reports whether a request's Host, with or without a port, names this server: it is a
// loopback name, the address at which the request arrived, or an allowed host.
func allowedHost(r *http.Request, hosts []string) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if ip := net.ParseIP(host); strings.EqualFold(host, "localhost") || (ip != nil && ip.IsLoopback()) {
		return true
	} else if at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && ip != nil && ip.Equal(at.IP) {
		return true
	}
	return slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(strings.Trim(h, "[]"), host) })
}
