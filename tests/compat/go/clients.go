package main

import (
	"context"
	"fmt"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const routeTimeout = 10 * time.Second

// Clients are all that was started and not stopped, by name.
type Clients struct {
	producers map[string]rocketmq.Producer
	inboxes   map[string]*Inbox
	stops     map[string]func() error

	transactions map[string]rocketmq.TransactionProducer
	deciders     map[string]*Decider
}

func newClients() *Clients {
	return &Clients{
		producers: map[string]rocketmq.Producer{},
		inboxes:   map[string]*Inbox{},
		stops:     map[string]func() error{},

		transactions: map[string]rocketmq.TransactionProducer{},
		deciders:     map[string]*Decider{},
	}
}

func (clients *Clients) stop(name string) error {
	stop, known := clients.stops[name]
	if !known {
		return fmt.Errorf("nothing of the name %q was started", name)
	}
	delete(clients.stops, name)
	return stop()
}

func nameServers(request Request) primitive.NamesrvAddr {
	return primitive.NamesrvAddr{request.Namesrv}
}

// makeTopic waits for the route because the client does not look at the broker's answer.
func makeTopic(request Request) error {
	resolver := primitive.NewPassthroughResolver(nameServers(request))
	made, err := admin.NewAdmin(admin.WithResolver(resolver))
	if err != nil {
		return err
	}
	defer made.Close()
	err = made.CreateTopic(context.Background(),
		admin.WithTopicCreate(request.Topic), admin.WithBrokerAddrCreate(request.Broker),
		admin.WithReadQueueNums(request.Queues), admin.WithWriteQueueNums(request.Queues))
	if err != nil {
		return err
	}
	deadline := time.Now().Add(routeTimeout)
	for {
		queues, err := made.FetchPublishMessageQueues(context.Background(), request.Topic)
		if err == nil && len(queues) == request.Queues {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("topic %s has %d queues after %s, not %d: %v",
				request.Topic, len(queues), routeTimeout, request.Queues, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
