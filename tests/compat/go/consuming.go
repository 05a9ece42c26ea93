package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const pollTimeout = 200 * time.Millisecond

// Received is one delivery of a message.
type Received struct {
	Topic          string            `json:"topic"`
	BodyHex        string            `json:"bodyHex"`
	ID             string            `json:"id"`
	Queue          int               `json:"queue"`
	QueueOffset    int64             `json:"queueOffset"`
	SysFlag        int32             `json:"sysFlag"`
	Flag           int32             `json:"flag"`
	ReconsumeTimes int32             `json:"reconsumeTimes"`
	Properties     map[string]string `json:"properties"`
	ReceivedMs     int64             `json:"receivedMs"`
}

// Inbox keeps what a consumer got, in the order in which it came.
type Inbox struct {
	mutex    sync.Mutex
	messages []Received
}

func (inbox *Inbox) add(messages []*primitive.MessageExt) {
	now := time.Now().UnixNano() / int64(time.Millisecond)
	inbox.mutex.Lock()
	defer inbox.mutex.Unlock()
	for _, message := range messages {
		inbox.messages = append(inbox.messages, Received{
			Topic:          message.Topic,
			BodyHex:        hex.EncodeToString(message.Body),
			ID:             message.MsgId,
			Queue:          message.Queue.QueueId,
			QueueOffset:    message.QueueOffset,
			SysFlag:        message.SysFlag,
			Flag:           message.Flag,
			ReconsumeTimes: message.ReconsumeTimes,
			Properties:     copied(message.GetProperties()),
			ReceivedMs:     now,
		})
	}
}

func copied(properties map[string]string) map[string]string {
	same := make(map[string]string, len(properties))
	for name, value := range properties {
		same[name] = value
	}
	return same
}

func (inbox *Inbox) all() []Received {
	inbox.mutex.Lock()
	defer inbox.mutex.Unlock()
	return append([]Received{}, inbox.messages...)
}

func (clients *Clients) received(request Request) ([]Received, error) {
	inbox, known := clients.inboxes[request.Name]
	if !known {
		return nil, fmt.Errorf("no consumer %q", request.Name)
	}
	deadline := time.Now().Add(time.Duration(request.TimeoutMs) * time.Millisecond)
	for {
		messages := inbox.all()
		if len(messages) >= request.Count || time.Now().After(deadline) {
			return messages, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (clients *Clients) startPush(request Request) error {
	model := consumer.Clustering
	if request.Model == "broadcasting" {
		model = consumer.BroadCasting
	}
	started, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer(nameServers(request)), consumer.WithGroupName(request.Group),
		consumer.WithInstance(request.Name), consumer.WithConsumerModel(model),
		consumer.WithConsumerOrder(request.Orderly), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return err
	}
	inbox := &Inbox{}
	consume := func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		inbox.add(messages)
		if messages[0].ReconsumeTimes >= request.Retries {
			return consumer.ConsumeSuccess, nil
		}
		if again, given := primitive.GetConcurrentlyCtx(ctx); given {
			again.DelayLevelWhenNextConsume = request.RetryLevel
		}
		return consumer.ConsumeRetryLater, nil
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: request.Expression}
	if err := started.Subscribe(request.Topic, selector, consume); err != nil {
		return err
	}
	clients.inboxes[request.Name] = inbox
	clients.stops[request.Name] = started.Shutdown
	return started.Start()
}

func (clients *Clients) startPull(request Request) error {
	started, err := rocketmq.NewPullConsumer(
		consumer.WithNameServer(nameServers(request)), consumer.WithGroupName(request.Group),
		consumer.WithInstance(request.Name), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return err
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}
	if err := started.Subscribe(request.Topic, selector); err != nil {
		return err
	}
	if err := started.Start(); err != nil {
		return err
	}
	inbox := &Inbox{}
	polling, stopPolling := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		pollAll(polling, started, inbox)
	}()
	clients.inboxes[request.Name] = inbox
	clients.stops[request.Name] = func() error {
		stopPolling()
		<-stopped
		return started.Shutdown()
	}
	return nil
}

func pollAll(polling context.Context, from rocketmq.PullConsumer, inbox *Inbox) {
	for polling.Err() == nil {
		got, err := from.Poll(polling, pollTimeout)
		if err != nil {
			continue // nothing new, or stopped
		}
		inbox.add(got.GetMsgList())
		from.ACK(context.Background(), got, consumer.ConsumeSuccess)
	}
}
