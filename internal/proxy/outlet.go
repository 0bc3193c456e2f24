package proxy

import (
	"context"
	"log/slog"
	"net"
)

// maxRefused limits the hosts that an outlet returns: a command may request any number of hosts.
const maxRefused = 100

// Outlet returns a function for sandbox.Command.Proxy that serves a session. The function returns
// the first refused hosts that are not among the session's hosts, as host:port and without
// duplicates. The first refusal of each host is logged at level info, everything else at level
// debug. The session's own OnRequest is also called.
func (p *Proxy) Outlet(s Session, log *slog.Logger) func(net.Listener) []string {
	return func(l net.Listener) []string {
		var refused []string
		seen := map[string]bool{} // refused hosts, up to maxRefused
		told, session := s.OnRequest, s
		session.OnRequest = func(r Record) {
			if told != nil {
				told(r)
			}
			level := slog.LevelDebug
			address := (&exchange{record: r}).address()
			if r.Verdict == Refused && len(seen) < maxRefused && !seen[address] {
				level, seen[address] = slog.LevelInfo, true
				if r.Unlisted {
					refused = append(refused, address)
				}
			}
			log.Log(context.Background(), level, "A sandboxed command requested access to a host", "host", r.Host, "port", r.Port, "method", r.Method,
				"verdict", r.Verdict, "reason", r.Reason, "sent", r.Sent, "received", r.Received, "who", r.Who)
		}
		if err := p.Serve(l, session); err != nil {
			log.Error("A sandboxed command has no network access because its list of hosts is invalid", "error", err, "who", s.Who)
		}
		return refused
	}
}
