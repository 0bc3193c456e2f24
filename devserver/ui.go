package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
)

// ui is the Web UI behind a check of the Host header.
type ui struct {
	server *uiserver.Server
	front  *http.Server
}

// startUI serves the Web UI on ip:port, for the frontend at the given address.
// It returns once the UI answers.
//
// The UI itself answers whatever name it is asked for by. A web site whose name leads to
// this machine (DNS rebinding) could read all histories with it and signal workflows. So
// the UI listens at an address of the loopback network that nobody can guess, and
// requests reach it through a proxy that knows its names.
func startUI(ctx context.Context, ip string, port int, frontend string) (*ui, error) {
	behind := privateLoopback()
	behindPort, err := claimPort(ctx, "ui-port", behind, 0)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("starting the Web UI: %w", err)
	}
	target := &url.URL{Scheme: "http", Host: net.JoinHostPort(behind, strconv.Itoa(behindPort))}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	u := &ui{
		server: uiserver.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
			Host:                behind,
			Port:                behindPort,
			TemporalGRPCAddress: frontend,
			EnableUI:            true,
			HideLogs:            true,
			// The UI is served over plain HTTP, where a browser would drop a
			// cookie marked as secure.
			CORS: uiconfig.CORS{CookieInsecure: true},
			// A development server asks nothing of the internet.
			DisableNewsFetch:   true,
			NotifyOnNewVersion: false,
		})),
		front: &http.Server{Handler: byKnownName(proxy), ReadHeaderTimeout: 10 * time.Second},
	}
	// Start blocks, and ends the process if it cannot listen.
	go func() { _ = u.server.Start() }()
	go func() { _ = u.front.Serve(listener) }()

	address := "http://" + hostPort(ip, port) + "/healthz"
	if err := eventually(ctx, 20*time.Second, func(ctx context.Context) error { return getOK(ctx, address) }); err != nil {
		u.Stop()
		return nil, fmt.Errorf("starting the Web UI at %s: %w", address, err)
	}
	return u, nil
}

// Stop ends the UI with all its connections.
func (u *ui) Stop() {
	_ = u.front.Close()
	u.server.Stop()
}

// privateLoopback is an address of this machine that no other program uses or guesses.
func privateLoopback() string {
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
}

// byKnownName lets requests through that ask for an address, for localhost or for this
// machine by its name: what no web site can make its own name lead to.
func byKnownName(next http.Handler) http.Handler {
	machine, _ := os.Hostname()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Host
		if host, _, err := net.SplitHostPort(name); err == nil {
			name = host
		}
		name = strings.Trim(name, "[]")
		if net.ParseIP(name) == nil && !strings.EqualFold(name, "localhost") && !strings.EqualFold(name, machine) {
			http.Error(w, "Unrecognized Host header", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func getOK(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return nil
}
