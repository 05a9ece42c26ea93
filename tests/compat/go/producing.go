package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const callbackTimeout = 15 * time.Second

// Sent is what a producer knows after a send.
type Sent struct {
	OK          bool   `json:"ok"`
	ID          string `json:"id"`
	OffsetID    string `json:"offsetId"`
	Broker      string `json:"broker"`
	Queue       int    `json:"queue"`
	QueueOffset int64  `json:"queueOffset"`
	Error       string `json:"error,omitempty"`
}

func (clients *Clients) startProducer(request Request) error {
	selectors := map[string]producer.QueueSelector{
		"":       producer.NewRoundRobinQueueSelector(),
		"round":  producer.NewRoundRobinQueueSelector(),
		"hash":   producer.NewHashQueueSelector(),
		"manual": producer.NewManualQueueSelector(),
	}
	started, err := rocketmq.NewProducer(
		producer.WithNameServer(nameServers(request)), producer.WithGroupName(request.Group),
		producer.WithInstanceName(request.Name), producer.WithQueueSelector(selectors[request.Select]))
	if err != nil {
		return err
	}
	clients.producers[request.Name] = started
	clients.stops[request.Name] = started.Shutdown
	return started.Start()
}

func (clients *Clients) send(request Request) ([]Sent, error) {
	using, known := clients.producers[request.Name]
	if !known {
		return nil, fmt.Errorf("no producer %q", request.Name)
	}
	messages := make([]*primitive.Message, len(request.Messages))
	for index, message := range request.Messages {
		made, err := message.made()
		if err != nil {
			return nil, err
		}
		messages[index] = made
	}
	switch request.How {
	case "sync":
		return sendSync(using, messages), nil
	case "async":
		return sendAsync(using, messages)
	case "oneway":
		return []Sent{}, using.SendOneWay(context.Background(), messages...)
	case "batch":
		return []Sent{sent(using.SendSync(context.Background(), messages...))}, nil
	}
	return nil, fmt.Errorf("no way to send %q", request.How)
}

func sendSync(using rocketmq.Producer, messages []*primitive.Message) []Sent {
	results := make([]Sent, len(messages))
	for index, message := range messages {
		results[index] = sent(using.SendSync(context.Background(), message))
	}
	return results
}

// sendAsync gives the results in the order of their messages, whatever order the callbacks come in.
func sendAsync(using rocketmq.Producer, messages []*primitive.Message) ([]Sent, error) {
	results := make([]Sent, len(messages))
	var waiting sync.WaitGroup
	waiting.Add(len(messages))
	for index, message := range messages {
		index := index
		var once sync.Once // on a failure the client calls back twice
		callback := func(_ context.Context, result *primitive.SendResult, err error) {
			once.Do(func() {
				results[index] = sent(result, err)
				waiting.Done()
			})
		}
		if err := using.SendAsync(context.Background(), callback, message); err != nil {
			callback(nil, nil, err)
		}
	}
	done := make(chan struct{})
	go func() { waiting.Wait(); close(done) }()
	select {
	case <-done:
		return results, nil
	case <-time.After(callbackTimeout):
		return nil, fmt.Errorf("callbacks are missing after %s", callbackTimeout)
	}
}

func (clients *Clients) request(request Request) (Received, error) {
	using, known := clients.producers[request.Name]
	if !known || request.Message == nil {
		return Received{}, fmt.Errorf("no producer %q, or no message", request.Name)
	}
	message, err := request.Message.made()
	if err != nil {
		return Received{}, err
	}
	reply, err := using.Request(context.Background(), time.Duration(request.TimeoutMs)*time.Millisecond, message)
	if err != nil {
		return Received{}, err
	}
	return Received{Topic: reply.Topic, BodyHex: hex.EncodeToString(reply.Body), Properties: reply.GetProperties()}, nil
}

func (message Message) made() (*primitive.Message, error) {
	body := []byte(message.Body)
	if message.BodyHex != "" {
		decoded, err := hex.DecodeString(message.BodyHex)
		if err != nil {
			return nil, err
		}
		body = decoded
	}
	made := primitive.NewMessage(message.Topic, body)
	made.WithProperties(message.Properties)
	if message.Tags != "" {
		made.WithTag(message.Tags)
	}
	if len(message.Keys) > 0 {
		made.WithKeys(message.Keys)
	}
	if message.DelayLevel > 0 {
		made.WithDelayTimeLevel(message.DelayLevel)
	}
	if message.ShardingKey != "" {
		made.WithShardingKey(message.ShardingKey)
	}
	made.Queue = &primitive.MessageQueue{Topic: message.Topic, QueueId: message.Queue}
	return made, nil
}

func sent(result *primitive.SendResult, err error) Sent {
	if err != nil {
		return Sent{Error: err.Error()}
	}
	return Sent{
		OK:          result.Status == primitive.SendOK,
		ID:          result.MsgID,
		OffsetID:    result.OffsetMsgID,
		Broker:      result.MessageQueue.BrokerName,
		Queue:       result.MessageQueue.QueueId,
		QueueOffset: result.QueueOffset,
	}
}
