package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
)

// startUI serves the Web UI on ip:port, for the frontend at the given address.
// It returns once the UI answers.
func startUI(ctx context.Context, ip string, port int, frontend string) (*uiserver.Server, error) {
	host := ip
	if len(host) > 0 && dialHost(ip) == "::1" {
		host = "[" + ip + "]" // the UI server joins host and port by a colon
	}
	ui := uiserver.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
		Host:                host,
		Port:                port,
		TemporalGRPCAddress: frontend,
		EnableUI:            true,
		HideLogs:            true,
		// The UI is served over plain HTTP, where a browser would drop a
		// cookie marked as secure.
		CORS: uiconfig.CORS{CookieInsecure: true},
		// A development server asks nothing of the internet.
		DisableNewsFetch:   true,
		NotifyOnNewVersion: false,
	}))
	// Start blocks, and ends the process if it cannot listen.
	go func() { _ = ui.Start() }()

	url := "http://" + hostPort(ip, port) + "/healthz"
	err := eventually(ctx, 20*time.Second, func(ctx context.Context) error { return getOK(ctx, url) })
	if err != nil {
		ui.Stop()
		return nil, fmt.Errorf("starting the Web UI at %s: %w", url, err)
	}
	return ui, nil
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
