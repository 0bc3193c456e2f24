package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
)

// Connect connects to Temporal.
type Connect func(context.Context) (client.Client, error)

// Temporal checks that Temporal responds, has the namespace, and has the search attributes for
// listing runs.
func Temporal(connect Connect, address, namespace string) Check {
	return Check{Name: "temporal", Run: func(ctx context.Context) []Result {
		c, err := connect(ctx)
		if err != nil {
			return FailedBy(err, "start it (rgpt dev --detach includes one), or correct TEMPORAL_ADDRESS")
		}
		defer c.Close()
		_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
		var unknown *serviceerror.NamespaceNotFound
		if errors.As(err, &unknown) {
			return Failed(fmt.Sprintf("%s is reachable but has no namespace %q", address, namespace),
				fmt.Sprintf("temporal operator namespace create --namespace %s --address %s, or correct TEMPORAL_NAMESPACE", namespace, address))
		}
		if err != nil {
			return FailedBy(fmt.Errorf("read namespace %q from %s: %w", namespace, address, err), "see Temporal's log")
		}
		return append(Passed("%s is reachable, namespace %s", address, namespace), attributes(ctx, c, address, namespace)...)
	}}
}

func attributes(ctx context.Context, c client.Client, address, namespace string) []Result {
	const name = "search attributes"
	known, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return []Result{{Check: name, Status: Warn, Message: "cannot list the search attributes: " + err.Error(), Remedy: "check that this client has access to Temporal's operator service"}}
	}
	var missing, remedy []string
	for _, want := range contract.SearchAttributes() {
		have, ok := known.GetCustomAttributes()[want[0]]
		switch {
		case !ok:
			missing = append(missing, want[0])
			remedy = append(remedy, fmt.Sprintf("--name %s --type %s", want[0], want[1]))
		case have.String() != want[1]:
			missing = append(missing, fmt.Sprintf("%s (is %s, not %s)", want[0], have, want[1]))
		}
	}
	if len(missing) == 0 {
		return []Result{{Check: name, Status: OK, Message: fmt.Sprintf("all %d are registered", len(contract.SearchAttributes()))}}
	}
	command := fmt.Sprintf("temporal operator search-attribute create --address %s --namespace %s %s", address, namespace, strings.Join(remedy, " "))
	if len(remedy) == 0 {
		command = "remove the attributes of the wrong type from the namespace, or use another namespace"
	}
	return []Result{{Check: name, Status: Fail, Message: "runs cannot start without " + strings.Join(missing, ", "), Remedy: command}}
}

// Queue is a task queue that some worker must poll.
type Queue struct {
	Name      string
	Workflows bool // workflows run on it too
}

// pollerAge is the age after which a poller counts as stopped: Temporal lists it for some minutes,
// but a live poller polls again within a minute.
const pollerAge = 75 * time.Second

// Workers checks that each task queue is polled.
func Workers(connect Connect, queues []Queue) Check {
	return Check{Name: "workers", Run: func(ctx context.Context) []Result {
		c, err := connect(ctx)
		if err != nil {
			return Warned("not checked: Temporal is not responding", "fix Temporal first")
		}
		defer c.Close()
		var idle []string
		hosts := map[string]bool{}
		for _, q := range queues {
			kinds := []enumspb.TaskQueueType{enumspb.TASK_QUEUE_TYPE_ACTIVITY}
			if q.Workflows {
				kinds = append(kinds, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
			}
			for _, kind := range kinds {
				polled, err := pollers(ctx, c, q.Name, kind, hosts)
				if err != nil {
					return FailedBy(fmt.Errorf("list the pollers of %s: %w", q.Name, err), "see Temporal's log")
				}
				if !polled {
					idle = append(idle, fmt.Sprintf("%s (%s)", q.Name, strings.ToLower(kind.String())))
				}
			}
		}
		if len(idle) > 0 {
			return Failed("task queues without a worker: "+strings.Join(idle, ", "),
				"start a worker with these roles (rgpt dev --detach, or rgpt-worker), and check its log")
		}
		return Passed("%d task queues are polled by %d workers", len(queues), len(hosts))
	}}
}

func pollers(ctx context.Context, c client.Client, queue string, kind enumspb.TaskQueueType, hosts map[string]bool) (bool, error) {
	d, err := c.DescribeTaskQueue(ctx, queue, kind)
	if err != nil {
		return false, err
	}
	polled := false
	for _, p := range d.GetPollers() {
		if time.Since(p.GetLastAccessTime().AsTime()) < pollerAge {
			polled, hosts[p.GetIdentity()] = true, true
		}
	}
	return polled, nil
}
