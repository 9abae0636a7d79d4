#ifndef C_THERMOMETER_THERMOMETER_H_
#define C_THERMOMETER_THERMOMETER_H_

// What clients and the driver say to each other on a channel of the service "thermometer".

#include <zircon/types.h>

// Asks for the temperature. The answer has the txid and the ordinal of the request.
#define THERMOMETER_READ 1u
// Asks to be told of alarms; answered as a reading.
#define THERMOMETER_WATCH 2u
// From the driver, with the txid 0: the temperature has risen above the limit, or is no longer above it.
#define THERMOMETER_ALARM 3u

// A message, both ways, in the byte order of the machine. What is longer than this is fine; a client that sends less is
// disconnected.
typedef struct thermometer_message {
  uint32_t txid;
  uint32_t ordinal;
  // In an answer: ZX_OK, why there is no reading, or ZX_ERR_NOT_SUPPORTED for an ordinal that the driver does not know.
  int32_t status;
  // Thousandths of a degree Celsius.
  int32_t millidegrees;
  // When it was measured, by the driver's clock.
  zx_time_t time;
  // Whether it is above the limit.
  uint32_t is_above;
  uint32_t reserved;
} thermometer_message_t;

#endif  // C_THERMOMETER_THERMOMETER_H_
